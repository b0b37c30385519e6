"""What runs in the page: the drawing of its charts, and the search through its errors."""

# Charts are drawn one after the other, so that a page of many answers while it draws; those in a part that
# is folded have no width until it is opened.
DRAW = """
const data = JSON.parse(document.getElementById("charts").textContent);
const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: data.config };
if (window.innerWidth < 600) data.config.axis.labelLimit = 90;
const draw = async (part) => {
  for (const place of part.querySelectorAll("[data-chart]:not(.drawn)")) {
    if (place.closest("details:not([open])")) continue;
    place.classList.add("drawn");
    await vegaEmbed(place, data.charts[place.dataset.chart], options);
  }
};
draw(document);
for (const part of document.querySelectorAll("details.part")) {
  part.addEventListener("toggle", () => draw(part));
}
for (const [moment, printing] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(moment, () => {
    document.body.classList.toggle("printing", printing);
    window.dispatchEvent(new Event("resize"));
  });
}
"""

BROWSE = """
for (const card of document.querySelectorAll("[data-errors]")) {
  const rows = [...card.querySelectorAll("tbody tr")];
  const controls = card.querySelector(".controls");
  const search = controls.querySelector("input");
  const filters = [...controls.querySelectorAll("select")];
  const count = controls.querySelector("output");
  const show = () => {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) &&
        filters.every((each) => !each.value || row.dataset[each.dataset.filter] === each.value);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} shown`;
  };
  const pick = (from) => {
    for (const each of filters) {
      const value = from.dataset[each.dataset.filter];
      each.value = [...each.options].some((option) => option.value === value) ? value : "";
    }
    search.value = "";
    show();
    card.scrollIntoView({ block: "nearest" });
  };
  search.addEventListener("input", show);
  for (const each of filters) each.addEventListener("change", show);
  const part = card.closest(".part");
  for (const button of part.querySelectorAll(".matrix button")) {
    button.addEventListener("click", () => pick(button));
  }
  controls.hidden = false;
  show();
}
"""
