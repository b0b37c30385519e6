"""A hundred wrong recipes, files and commands: each ends with code 2 and one message, and leaves nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polytask import cli

Call = Callable[..., tuple[int, str, str]]

ENCODER = 'encoder = "encoder"\nmax_length = 24\n'
TASK = '[tasks.mood]\ntrain = "mood-train.tsv"\n'
PAIR = '[tasks.alike]\ntrain = "alike-train.tsv"\nkind = "regression"\nlabel = "score"\n'


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process: exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["polytask", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        assert isinstance(leaving.value.code, int)
        return leaving.value.code, *capsys.readouterr()

    return run


def assert_one_message(found: tuple[int, str, str], part: str, num_lines: int = 1) -> None:
    code, out, err = found
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    message = err[err.index("polytask: ") :].strip()
    assert message.count("polytask: ") == 1
    assert part in message
    assert len(message.splitlines()) == num_lines, message


RECIPES = {
    # what is no recipe at all
    "": "tasks is missing",
    "tasks": "not valid TOML",
    "[tasks.mood": "not valid TOML",
    "encoder = 'a'\nencoder = 'b'": "Cannot overwrite a value",
    "{}": "not valid TOML",
    "\0": "not valid TOML",
    "a = " + "[" * 10_000: "not valid TOML",
    "# nothing": "tasks is missing",
    # tables and types
    "tasks = 3": "tasks should be a table. Found 3",
    "tasks = []": "tasks should be a table",
    "[tasks]": "tasks should have at least 1 item",
    "[tasks.mood]": "tasks.mood.train is missing",
    "[tasks]\nmood = 3": "tasks.mood should be a table",
    "[tasks.mood]\ntrain = 3": "tasks.mood.train should be a string",
    '[tasks.mood]\ntrain = ""': "tasks.mood.train should have at least 1 character",
    TASK + "text = 3": "tasks.mood.text should be a list",
    TASK + "text = []": "tasks.mood.text should have at least 1 item",
    TASK + 'text = ["a", "b", "c"]': "tasks.mood.text should have at most 2 items",
    TASK + "text = [1]": "tasks.mood.text.0 should be a string",
    TASK + "label = []": "tasks.mood.label should have at least 1 item",
    TASK + 'label = ["a", "b"]': "label should be one column unless kind is 'multilabel'",
    TASK + "labels = 3": "tasks.mood.labels should be a table",
    TASK + 'labels = ["a"]': "labels should name at least two classes",
    TASK + 'kind = "clasification"': "did you mean 'classification'",
    TASK + 'metric = "acuracy"': "did you mean 'accuracy'",
    TASK + 'metric = "pearson"': "tasks.mood.metric should be one of accuracy",
    TASK + 'metrik = "f1"': "Did you mean 'metric'",
    TASK + "range = [0, 1]": "range belongs to regression",
    TASK + "dropout = 1": "tasks.mood.dropout should be less than 1",
    TASK + "dropout = -0.1": "tasks.mood.dropout should be greater than or equal to 0",
    TASK + 'pooling = "max"': "tasks.mood.pooling should be one of",
    TASK + 'head = "linar"': "did you mean 'linear'",
    TASK + 'pairs = "join"': "did you mean 'joined'",
    TASK + 'bad_rows = "ignore"': "tasks.mood.bad_rows should be one of stop, skip",
    # what is done to training rows
    '[tasks.mood]\ntrain = ["a.tsv", "b.tsv"]': "train should be one file or set; join = [...] adds",
    "drop_longest = 2\n" + TASK: "drop_longest should be less than 1",
    TASK + "drop_longest = -0.1": "tasks.mood.drop_longest should be greater than or equal to 0",
    TASK + 'augment = "ead"': "augment.kind should be one of none, eda. Found 'ead'; did you mean 'eda'",
    TASK + 'augment = { kind = "eda", swaps = 1 }': "Did you mean 'swap'",
    TASK
    + 'augment = { kind = "eda", swap = 2 }': "tasks.mood.augment.swap should be less than or equal to 1",
    TASK + 'augment = { kind = "none", swap = 1 }': "swap is not an option of 'none', which has no options",
    TASK
    + 'augment = { kind = "eda", copies = 0 }': "tasks.mood.augment.copies is 0, and balance is not 'eda'",
    TASK
    + 'augment = { kind = "eda", synonyms = 0, insert = 0, swap = 0, delete = 0 }': "should not all be 0",
    TASK + 'balance = "even"': "tasks.mood.balance should be one of none, repeat, eda",
    PAIR + 'text = ["first", "second"]\nbalance = "eda"': "tasks.alike.balance evens out classes",
    TASK + 'join = "mood-trian.tsv"': "did you mean 'mood-train.tsv'",
    TASK + 'join = ["cs224n/stt"]': "tasks.mood.join.0: 'cs224n/stt' is neither a file",
    TASK + 'join = [{ labels = ["a", "b"] }]': "tasks.mood.join.0.file is missing",
    TASK
    + 'join = [{ file = "mood-dev.tsv", max_length = 1 }]': "tasks.mood.join.0.max_length should be greater",
    TASK + 'join = [{ file = "mood-dev.tsv", columns = 1 }]': "tasks.mood.join.0.columns is not a key",
    TASK + 'text = "text"\njoin = [{ file = "mood-dev.tsv", text = ["a", "b"] }]': "join.0.text should be 1",
    TASK + 'join = [{ file = "mood-dev.tsv", labels = { negative = "bad", positive = "positive" } }]': (
        "tasks.mood.join.0.labels: a label should be one of negative, positive. Found 'bad'"
    ),
    "train_on_dev = true\n" + TASK: "train_on_dev is true, but no task has dev rows",
    "train_on_dev = true\n" + TASK + "[[phases]]\npatience = 2": "phases.0.patience needs dev scores",
    PAIR + 'text = ["first", "second"]\nrange = [5, 0]': "the smaller first",
    PAIR + 'text = ["first", "second"]\nrange = [0]': "tasks.alike.range.1 is missing",
    PAIR + 'text = ["first", "second"]\nrange = [0, inf]': "tasks.alike.range.1 should be a finite number",
    PAIR + 'text = ["first", "second"]\nlabels = ["a", "b"]': "labels belong to classification",
    PAIR + 'text = ["first", "second"]\nmetric = "f1"': "tasks.alike.metric should be one of pearson",
    '[tasks."a/b"]\ntrain = "mood-train.tsv"': "a task name should be letters",
    '[tasks.".."]\ntrain = "mood-train.tsv"': "a task name should be letters",
    # the recipe's own keys
    "encoder = 3\n" + TASK: "encoder should be a string",
    'encoder = ""\n' + TASK: "encoder should have at least 1 character",
    'encoder = "minilmm"\n' + TASK: "did you mean 'minilm'",
    'encoder = "mood-train.tsv"\n' + TASK: "encoder should be a folder, not a file",
    'encoder = "../../x"\n' + TASK: "encoder should be",
    'encoder = "."\n' + TASK: "has neither tokenizer.json nor vocab.txt",
    "max_lenght = 3\n" + TASK: "Did you mean 'max_length'",
    "max_length = 3\n" + TASK: "max_length should be greater than or equal to 4",
    'max_length = "long"\n' + TASK: "max_length should be a valid integer",
    'encoder = "encoder"\nmax_length = 33\n' + TASK: "max_length should be at most 32",
    "seed = -1\n" + TASK: "seed should be greater than or equal to 0",
    "seed = 99999999999999999999\n" + TASK: "seed should be less than",
    "seed = 1979-05-27\n" + TASK: "seed should be a valid integer",
    'precision = "fp16"\n' + TASK: "precision should be one of auto, bf16, fp32",
    'device = "tpu"\n' + TASK: "device should be one of auto, cpu, cuda",
    "threads = 0\n" + TASK: "threads should be greater than or equal to 1",
    'adapter = "pall"\n' + TASK: "did you mean 'pal'",
    "adapter = 3\n" + TASK: "adapter should be a table",
    # phases
    "phases = []\n" + TASK: "phases should have at least 1 item",
    "phases = 3\n" + TASK: "phases should be a list",
    "phases = [3]\n" + TASK: "phases.0 should be a table",
    "[phases]\nlr = 1\n" + TASK: "phases should be a list",
    TASK + '[[phases]]\ntasks = ["mod"]': "did you mean 'mood'",
    TASK + "[[phases]]\ntasks = []": "phases.0.tasks should have at least 1 item",
    TASK + '[[phases]]\ntasks = ["mood", "mood"]': "phases.0.tasks should name each task once",
    TASK + '[[phases]]\ntasks = "mood"': "phases.0.tasks should be a list",
    TASK + '[[phases]]\ntrain = "headz"': "did you mean 'heads'",
    TASK + '[[phases]]\ntrain = "top-0"': "phases.0.train should be one of",
    TASK + '[[phases]]\ntrain = "adapters"': "nothing to train",
    ENCODER
    + TASK
    + '[[phases]]\n[[phases]]\ntrain = ["encoder.nope.*"]': "phases.1.train should match parameters",
    TASK + "[[phases]]\nepochs = 0": "phases.0.epochs should be greater than or equal to 1",
    TASK + "[[phases]]\nepochs = 1.5": "phases.0.epochs should be a valid integer",
    TASK + "[[phases]]\nsteps_per_epoch = 0": "phases.0.steps_per_epoch should be greater",
    TASK + "[[phases]]\nbatch_size = 0": "phases.0.batch_size should be greater",
    TASK + "[[phases]]\nlr = 0": "phases.0.lr should be greater than 0",
    TASK + "[[phases]]\nlr = nan": "phases.0.lr should be a finite number",
    TASK + '[[phases]]\nlr = "high"': "phases.0.lr should be a valid number",
    TASK + "[[phases]]\nwarmup = 2": "phases.0.warmup should be less than or equal to 1",
    TASK + '[[phases]]\nschedule = "square"': "phases.0.schedule should be one of linear, cosine, constant",
    TASK + "[[phases]]\nclip = -1": "phases.0.clip should be greater than or equal to 0",
    TASK + '[[phases]]\nsampler = "anealed"': "did you mean 'annealed'",
    TASK + '[[phases]]\nsampler = { kind = "joint", x = 1 }': "phases.0.sampler.x is not a key",
    TASK + "[[phases]]\ncombine = 7": "phases.0.combine should be a table",
    TASK + '[[phases]]\ncombine = "summ"': "did you mean 'sum'",
    TASK + "[[phases]]\npatience = -1": "phases.0.patience should be greater than or equal to 0",
    TASK + "[[phases]]\nbatchsize = 3": "Did you mean 'batch_size'",
    # files
    '[tasks.mood]\ntrain = "mood-trian.tsv"': "did you mean 'mood-train.tsv'",
    '[tasks.mood]\ntrain = "."': "is a folder",
    '[tasks.mood]\ntrain = "/dev/null"': "tasks.mood.train: /dev/null: is not a regular file",
    '[tasks.mood]\ntrain = "tiny.toml"': "should end in .csv",
    '[tasks.mood]\ntrain = "cs224n/stt"': "did you mean 'cs224n/sts'",
    TASK + 'dev = "nowhere.tsv"': "tasks.mood.dev: ",
    TASK + 'test = "nowhere.tsv"': "tasks.mood.test: ",
    TASK + 'text = "texts"': "did you mean 'text'",
    TASK + 'label = "lable"': "did you mean 'label'",
    TASK + 'id = "number"': "has no column 'number'",
}


@pytest.mark.parametrize(("recipe", "part"), RECIPES.items(), ids=lambda text: repr(text[-40:]))
def test_a_wrong_recipe(project: Path, call: Call, recipe: str, part: str) -> None:
    path = project / "wrong.toml"
    path.write_text(recipe)
    assert_one_message(call("train", path, "--out", project / "run"), part)
    assert not (project / "run").exists()


DATA: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("a.tsv", b"", "is empty"),
    "a header alone": ("a.tsv", b"text\tlabel\n", "has no rows"),
    "blank lines": ("a.tsv", b"\n\n\n", "has no column 'text'"),
    "no header": ("a.tsv", b"good film\tx\nbad film\ty\n", "has no column 'text'"),
    "a repeated column": ("a.tsv", b"text\ttext\tlabel\na\tb\tc\n", "has 2 columns named 'text'"),
    "one class": ("a.tsv", b"text\tlabel\na\tx\nb\tx\n", "label"),
    "utf-16": ("a.tsv", "text\tlabel\na\tx\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
    "gzip by name alone": ("a.tsv.gz", b"text\tlabel\na\tx\n", "not a gzip file"),
    "gzip without its name": ("a.tsv", b"\x1f\x8b\x08\x00", "its name should end in .gz"),
    "half a gzip": ("a.tsv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "cut short"),
    "another key": ("a.jsonl", b'{"texts": "a", "label": "x"}\n', "did you mean 'texts'"),
    "no Parquet": ("a.parquet", b"PAR1 but not really", "a.parquet"),
}
ROWS: dict[str, tuple[str, bytes, str]] = {
    "too few fields": ("a.tsv", b"text\tlabel\na\tx\nb\n", "a.tsv:3: "),
    "too many fields": ("a.tsv", b"text\tlabel\na\tx\tz\nb\ty\n", "a.tsv:2: "),
    "an empty text": ("a.tsv", b"text\tlabel\na\tx\n\ty\n", "a.tsv:3: 'text' is empty"),
    "an empty label": ("a.tsv", b"text\tlabel\na\tx\nb\t\n", "a.tsv:3: 'label' is empty"),
    "not UTF-8": ("a.tsv", b"text\tlabel\na\tx\n\xff\ty\n", "a.tsv:3: "),
    "an open quote": ("a.tsv", b'text\tlabel\na\tx\n"b\ty\n', "a.tsv:3: "),
    "no JSON": ("a.jsonl", b'{"text": "a", "label": "x"}\n{"text": \n', "a.jsonl:2: is not JSON"),
    "no object": ("a.jsonl", b'{"text": "a", "label": "x"}\n[]\n', "a.jsonl:2: should be a JSON object"),
    "a number for a text": (
        "a.jsonl",
        b'{"text": "a", "label": "x"}\n{"text": 1, "label": "y"}\n',
        "a.jsonl:2: ",
    ),
    "a list for a label": (
        "a.jsonl",
        b'{"text": "a", "label": "x"}\n{"text": "a", "label": []}\n',
        "a.jsonl:2: ",
    ),
}


@pytest.mark.parametrize(("name", "content", "part"), DATA.values(), ids=DATA)
def test_a_wrong_file(project: Path, call: Call, name: str, content: bytes, part: str) -> None:
    (project / name).write_bytes(content)
    (project / "wrong.toml").write_text(f'{ENCODER}[tasks.a]\ntrain = "{name}"\n')
    found = call("train", project / "wrong.toml", "--out", project / "run")
    missing = part == "has no column 'text'"  # and none named 'label' either, which has its own line
    assert_one_message(found, part, num_lines=2 if missing else 1)
    assert "tasks.a" in found[2]
    assert not (project / "run").exists()


@pytest.mark.parametrize(("name", "content", "part"), ROWS.values(), ids=ROWS)
def test_a_wrong_row_is_named_with_file_and_line(
    project: Path, call: Call, name: str, content: bytes, part: str
) -> None:
    (project / name).write_bytes(content)
    (project / "wrong.toml").write_text(f'{ENCODER}[tasks.a]\ntrain = "{name}"\n')
    code, out, err = call("train", project / "wrong.toml", "--out", project / "run")
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    message = err[err.index("polytask: ") :].strip().splitlines()
    assert message[0] == 'polytask: 1 bad row; bad_rows = "skip" leaves such rows out:'
    assert part in message[1]
    assert not (project / "run").exists()


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "no such recipe": (("train", "{}/none.toml"), "none.toml: cannot be read as a recipe"),
    "a folder for a recipe": (("train", "{}"), "cannot be read as a recipe"),
    "a recipe of another encoding": (("train", "{}/latin.toml"), "should be UTF-8"),
    "a set without a value": (("train", "{}/tiny.toml", "--set", "seed"), "--set should look like"),
    "a set without a place": (("train", "{}/tiny.toml", "--set", "phases.9.lr=1"), "a number from 0 to 1"),
    "a set inside a number": (("train", "{}/tiny.toml", "--set", "seed.x=1"), "seed"),
    "out is a file": (("train", "{}/tiny.toml", "--out", "{}/tiny.toml"), "is a file, not a folder"),
    "out is inside a file": (("train", "{}/tiny.toml", "--out", "{}/tiny.toml/x"), "is a file, not a folder"),
    "out is not empty": (("train", "{}/tiny.toml", "--out", "{}"), "is not empty"),
    "nothing to resume": (("train", "{}/tiny.toml", "--out", "{}/none", "--resume"), "holds no run"),
    "evaluate nothing": (("evaluate", "{}/none"), "no model folder or run folder"),
    "evaluate a folder": (("evaluate", "{}"), "is not a model folder"),
    "evaluate an encoder": (("evaluate", "{}/encoder"), "not written by polytask"),
    "predict with nothing": (("predict", "{}/none", "{}/mood-dev.tsv"), "no model folder or run folder"),
    "predict with an encoder": (("predict", "{}/encoder", "{}/mood-dev.tsv"), "not written by polytask"),
    "info on nothing": (("info", "{}/none"), "cannot be read as a recipe"),
    "info on a folder": (("info", "{}"), "is not a model folder"),
    "info on data": (("info", "{}/mood-dev.tsv"), "not valid TOML"),
    "report on nothing": (("report", "{}/none"), "not a run folder"),
    "report on a folder": (("report", "{}"), "not a run folder"),
    "an unknown set": (("data", "fetch", "demo/stss"), "did you mean 'demo/sts'"),
}


@pytest.mark.parametrize(("command", "part"), COMMANDS.values(), ids=COMMANDS)
def test_a_wrong_command(project: Path, call: Call, command: tuple[str, ...], part: str) -> None:
    (project / "latin.toml").write_bytes("# für\n".encode("latin-1"))
    before = sorted(project.rglob("*"))
    assert_one_message(call(*(word.replace("{}", str(project)) for word in command)), part)
    assert sorted(project.rglob("*")) == before


USES: dict[str, tuple[tuple[str, ...], str]] = {
    "an unknown task": (("evaluate", "{run}", "--task", "mod"), "did you mean 'mood'"),
    "data without a task": (
        ("evaluate", "{run}", "--data", "{data}/mood-dev.tsv"),
        "--task (mood, alike, tags)",
    ),
    "a model without rows": (("evaluate", "{run}/model"), "give --task and --data"),
    "another task's data": (
        ("evaluate", "{run}", "--task", "tags", "--data", "{data}/tiny.toml"),
        "should end in",
    ),
    "no such file": (("predict", "{run}", "{data}/mood-dve.tsv"), "did you mean 'mood-dev.tsv'"),
    "no such task": (("predict", "{run}", "{data}/mood-dev.tsv", "--task", "x"), "should be one of mood"),
    "a changed recipe": (
        ("train", "{data}/tiny.toml", "--out", "{run}", "--resume", "--set", "seed=2"),
        "seed was 1 and is 2",
    ),
    "a run that is there": (("train", "{data}/tiny.toml", "--out", "{run}"), "Add --resume"),
    "a changed model": (("info", "{run}", "--set", "seed=2"), "--set changes a recipe"),
}


@pytest.mark.parametrize(("command", "part"), USES.values(), ids=USES)
def test_a_wrong_use_of_a_run(
    trained: Path, tiny: Path, one_thread: None, call: Call, command: tuple[str, ...], part: str
) -> None:
    words = [word.replace("{run}", str(trained)).replace("{data}", str(tiny)) for word in command]
    assert_one_message(call(*words), part)


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["train"], ["train", "--bogus"], ["data", "fetch"], ["predict"]]
)
def test_a_command_that_is_none_says_how_to_get_help(call: Call, arguments: list[str]) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert "Usage: polytask" in err


def test_there_are_a_hundred_of_them() -> None:
    assert len(RECIPES) + len(DATA) + len(ROWS) >= 100
