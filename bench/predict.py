"""`polytask predict` on a file of many rows: rows a second, and memory at the start and at the end.

python -m bench.predict runs/joint/onnx-int8 --task sst --rows 1000000
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

MOST_GROWTH = 1.1  # of the memory in use once a tenth of the rows is answered
SENTENCE = "the film is neither as funny nor as touching as its makers think , but row {} almost saves it"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 where memory grows, or rows are missing or out of order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--task", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        given, out = Path(folder) / "rows.csv", Path(folder) / "answers.csv"
        with given.open("w", encoding="utf-8") as file:
            file.write("id,text\n")
            file.writelines(f'r{row},"{SENTENCE.format(row)}"\n' for row in range(chosen.rows))
        command = [sys.executable, "-m", "polytask", "predict", str(chosen.model), str(given)]
        command += ["--task", chosen.task, "--text", "text", "--out", str(out)]
        started = time.perf_counter()
        sizes: list[tuple[int, int]] = []  # bytes written, kB in use
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                if out.exists():
                    sizes.append((out.stat().st_size, _resident(process.pid)))
                time.sleep(0.2)
        seconds = time.perf_counter() - started
        with out.open(encoding="utf-8") as file:
            next(file)
            in_order = all(line.startswith(f"{row},r{row},") for row, line in enumerate(file))
        with out.open(encoding="utf-8") as file:
            rows = sum(1 for _ in file) - 1
        early = [size for written, size in sizes if written >= out.stat().st_size / 10 and size]
    growth = max(early) / early[0] if early else 1.0
    print(
        f"{rows:,} rows in {seconds:,.0f} s, {rows / seconds:,.0f} a second, "
        f"{'in' if in_order else 'out of'} order; memory {early[0] / 1000:,.0f} MB after a tenth, "
        f"at most {max(early) / 1000:,.0f} MB later"
    )
    return int(process.returncode != 0 or not in_order or rows != chosen.rows or growth > MOST_GROWTH)


def _resident(process: int) -> int:
    """The memory of a process in kB; 0 once it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(found[0].split()[1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
