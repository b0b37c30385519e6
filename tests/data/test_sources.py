"""What files may look like, and what is said of those that cannot be read."""

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytask.data import delimited, sources
from polytask.data.sources import BadRow, Record, read_records
from polytask.errors import DataError


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def read(path: Path, *columns: str, optional: Sequence[str] = ()) -> list[Record | BadRow]:
    return list(read_records(path, columns, optional))


def values(path: Path, *columns: str) -> list[tuple[object, ...]]:
    rows = read(path, *columns)
    assert all(isinstance(row, Record) for row in rows), rows
    return [tuple(row.values.values()) for row in rows if isinstance(row, Record)]


def problem(path: Path, *columns: str) -> str:
    with pytest.raises(DataError) as caught:
        read(path, *columns)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_bom_is_not_part_of_the_first_column_name(tmp_path: Path) -> None:
    for name, content in (("a.csv", b"text,label\nhi,1\n"), ("a.jsonl", b'{"text":"hi","label":1}\n')):
        assert values(write(tmp_path, name, b"\xef\xbb\xbf" + content), "text") == [("hi",)]


def test_a_quoted_first_column_after_a_bom_loses_both(tmp_path: Path) -> None:
    assert values(write(tmp_path, "a.csv", b'\xef\xbb\xbf"text",label\nhi,1\n'), "text") == [("hi",)]


def test_crlf_leaves_no_trace_in_the_last_column(tmp_path: Path) -> None:
    assert values(write(tmp_path, "a.csv", b"text,label\r\nhi,1\r\n"), "label") == [("1",)]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|"])
def test_the_delimiter_is_found_from_the_header(tmp_path: Path, delimiter: str) -> None:
    content = f"id{delimiter}text{delimiter}label\n1{delimiter}hi{delimiter}2\n"
    assert values(write(tmp_path, "a.csv", content.encode()), "label", "text") == [("2", "hi")]


def test_commas_in_a_tab_separated_header_do_not_confuse(tmp_path: Path) -> None:
    assert values(write(tmp_path, "a.csv", b"a,b,c\ttext\n1,2\thi, you\n"), "text") == [("hi, you",)]


def test_a_row_number_is_the_line_on_which_the_row_starts(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b'text,label\n"two\nlines",1\nlast,2\n')
    assert [(row.line, row.values["text"]) for row in read(path, "text") if isinstance(row, Record)] == [
        (2, "two\nlines"),
        (4, "last"),
    ]


def test_doubled_quotes_stand_for_one(tmp_path: Path) -> None:
    assert values(write(tmp_path, "a.tsv", b'\ttext\n0\t"she said ""hi"""\n'), "text") == [('she said "hi"',)]


def test_a_bad_row_leaves_the_rows_around_it_alone(tmp_path: Path) -> None:
    content = b'text,label\nok,1\nfew\na,b,c\n\xff\xfe,1\nx\0y,1\n"a"b,1\nok,2\n'
    rows = read(write(tmp_path, "a.csv", content), "text")
    bad = {row.line: row.problem for row in rows if isinstance(row, BadRow)}
    assert [row.values["text"] for row in rows if isinstance(row, Record)] == ["ok", "ok"]
    assert bad.keys() == {3, 4, 5, 6, 7}
    assert bad[3] == "has 1 fields where the header has 2"
    assert bad[4] == "has 3 fields where the header has 2"
    assert bad[5] == "is not UTF-8"
    assert bad[6] == "holds a NUL byte"
    assert bad[7].startswith("text follows a closing quote")


def test_a_bad_row_prints_file_and_line() -> None:
    assert str(BadRow("a.csv", 7, "is not UTF-8")) == "a.csv:7: is not UTF-8"


def test_a_quote_left_open_in_the_last_column_does_not_swallow_the_rest(tmp_path: Path) -> None:
    rows = read(write(tmp_path, "a.csv", b'label,text\n1,ok\n2,"open\n3,x\n4,y\n'), "text")
    assert [row.line for row in rows] == [2, 3]
    assert isinstance(rows[1], BadRow)
    assert rows[1].problem == "a quote that is opened here is never closed (lines 3 to 5 are lost)"


def test_a_field_without_end_is_refused_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (delimited, sources):
        monkeypatch.setattr(module, "MAX_LINE", 200_000)
    long = b"x" * 900_000
    for name, content in (
        ("a.csv", b"text,label\nok,1\n" + long + b",1\nok,2\n"),
        ("a.jsonl", b'{"text":"ok"}\n{"text":"' + long + b'"}\n{"text":"ok"}\n'),
    ):
        rows = read(write(tmp_path, name, content), "text")
        assert [type(row) for row in rows] == [Record, BadRow, Record]
        assert isinstance(rows[1], BadRow)
        assert "longer than 200,000" in rows[1].problem


def test_a_cell_longer_than_the_limit_is_a_bad_row_in_every_format(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = "x" * 1_000_001
    pq.write_table(pa.table({"text": ["ok", text, "ok"]}), tmp_path / "a.parquet")
    write(tmp_path, "a.csv", f"text\nok\n{text}\nok\n".encode())
    write(tmp_path, "a.jsonl", f'{{"text":"ok"}}\n{{"text":"{text}"}}\n{{"text":"ok"}}\n'.encode())
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        rows = read(tmp_path / name, "text")
        assert [type(row) for row in rows] == [Record, BadRow, Record], name
        assert "longer than 1,000,000" in str(rows[1])


def test_blank_lines_are_no_rows_but_in_a_file_of_one_column_they_are_empty_cells(tmp_path: Path) -> None:
    assert values(write(tmp_path, "a.csv", b"text,label\n\na,1\n\n\nb,2\n\n"), "text") == [("a",), ("b",)]
    assert values(write(tmp_path, "b.csv", b"text\na\n\nb\n\n"), "text") == [("a",), ("",), ("b",)]


def test_json_keeps_types_and_a_key_that_is_left_out_is_none(tmp_path: Path) -> None:
    path = write(
        tmp_path, "a.jsonl", b'{"text":"a","label":1.5}\n\n{"text":"b"}\n{"text":["c"],"label":true}'
    )
    assert values(path, "text", "label") == [("a", 1.5), ("b", None), (["c"], True)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[1]", "should be a JSON object. Found a list"),
        (b"1", "Found a number"),
        (b"null", "Found a null"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"text": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"text": "\xff"}', "is not UTF-8"),
    ],
)
def test_a_line_that_is_no_json_object_is_one_bad_row(tmp_path: Path, line: bytes, said: str) -> None:
    rows = read(write(tmp_path, "a.jsonl", b'{"text":"a"}\n' + line + b'\n{"text":"b"}\n'), "text")
    assert [row.line for row in rows] == [1, 2, 3]
    assert isinstance(rows[1], BadRow)
    assert said in rows[1].problem


def test_parquet_keeps_types_and_counts_rows_from_one(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"text": ["a", None], "label": [["x"], []], "n": [1, 2], "a.b": ["p", "q"]})
    pq.write_table(table, tmp_path / "a.parquet")
    write(tmp_path, "b.parquet.gz", (tmp_path / "a.parquet").read_bytes())
    for name in ("a.parquet", "b.parquet.gz"):
        assert read(tmp_path / name, "text", "label", "a.b") == [
            Record(1, {"text": "a", "label": ["x"], "a.b": "p"}),
            Record(2, {"text": None, "label": [], "a.b": "q"}),
        ]


def test_parquet_text_that_is_not_utf8_is_a_bad_row(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = pa.array([b"ok", b"\xff\xfe", b"fine"])
    text = pa.StringArray.from_buffers(3, cells.buffers()[1], cells.buffers()[2])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", "text") == [
        Record(1, {"text": "ok"}),
        BadRow(str(tmp_path / "a.parquet"), 2, "is not UTF-8"),
        Record(3, {"text": "fine"}),
    ]


def test_optional_columns_are_given_where_the_file_has_them(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b"text,id\nhi,7\n")
    assert read(path, "text", optional=("id", "label")) == [Record(2, {"text": "hi", "id": "7"})]


def test_every_format_reads_the_same_gzipped(tmp_path: Path) -> None:
    for name, content in (("a.csv.gz", b"text\nhi\n"), ("a.jsonl.gz", b'{"text":"hi"}\n')):
        assert values(write(tmp_path, name, content), "text") == [("hi",)]


def test_a_missing_column_names_the_nearest_and_all_there_are(tmp_path: Path) -> None:
    content = b"id,sentence,label\n1,a,b\n"
    for name, data in (("a.csv", content), ("a.jsonl", b'{"id":1,"sentence":"a","label":"b"}\n')):
        said = problem(write(tmp_path, name, data), "sentense")
        assert "no column 'sentense'" in said
        assert "'id', 'sentence', 'label'" in said
        assert "did you mean 'sentence'?" in said


def test_two_columns_of_one_name_matter_only_when_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b"text,label,label\na,1,2\n")
    assert values(path, "text") == [("a",)]
    assert "2 columns named 'label'" in problem(path, "text", "label")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv.gz", b"", "is empty"),
        ("a.jsonl", b"", "is empty"),
        ("a.parquet", b"", "is empty"),
        ("a.csv", b"text,label\n", "has no rows"),
        ("a.csv", b"text,label\n\n\n", "has no rows"),
        ("a.jsonl", b"\n\n", "has no rows"),
        ("a.csv", b"te\xffxt\na\n", "header line is not UTF-8"),
        ("a.csv", "text\na\n".encode("utf-16"), "is UTF-16"),
        ("a.csv", gzip.compress(b"text\na\n"), "should end in .gz"),
        ("a.parquet", b"PAR1 no, not really PAR1", "is not a Parquet file, or is damaged"),
        ("a.xlsx", b"text\na\n", "Found '.xlsx'"),
        ("a", b"text\na\n", "should end in .csv"),
        ("a.cvs", b"text\na\n", "did you mean '.csv'?"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    assert said in problem(write(tmp_path, name, content), "text")


def test_a_parquet_file_without_rows_has_no_rows(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert "has no rows" in problem(tmp_path / "a.parquet", "text")


def test_gzip_that_is_none_or_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"text,label\na,1\n")
    assert "not a gzip file" in problem(tmp_path / "a.csv.gz", "text")
    whole = gzip.compress(b"text,label\n" + b"abc,1\n" * 50_000)
    (tmp_path / "b.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert "cut short" in problem(tmp_path / "b.csv.gz", "text")
    (tmp_path / "c.parquet.gz").write_bytes(whole[: len(whole) // 2])
    assert "cut short" in problem(tmp_path / "c.parquet.gz", "text")


def test_a_parquet_file_cut_or_scrambled_anywhere_gives_a_plain_error(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": [f"row {n}" for n in range(500)]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for place in range(0, len(whole), len(whole) // 12):
        write(tmp_path, "b.parquet", whole[:place] or b"x")
        assert problem(tmp_path / "b.parquet", "text")


def test_a_missing_file_suggests_a_neighbour_and_a_folder_is_no_file(tmp_path: Path) -> None:
    write(tmp_path, "train.csv", b"text\na\n")
    assert "did you mean 'train.csv'?" in problem(tmp_path / "trian.csv", "text")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in problem(tmp_path / "folder.csv", "text")
    assert "cannot be" in problem(tmp_path / ("n" * 300 + ".csv"), "text")
    assert problem(tmp_path / "nul\0.csv", "text")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), delimiter=st.sampled_from("\t,;|"))
def test_any_text_comes_back_from_csv_as_it_went_in(
    tmp_path: Path, rows: list[tuple[str, str]], delimiter: str
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    path = write(tmp_path, "a.csv", text.getvalue().encode("utf-8"))
    assert values(path, "text", "label") == rows


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80))
def test_no_bytes_crash_a_reader(tmp_path: Path, content: bytes) -> None:
    for name, start in (("a.csv", b"text,label\n"), ("a.jsonl", b'{"text": 1}\n'), ("b.csv", b"")):
        try:
            rows = read(write(tmp_path, name, start + content), "text")
        except DataError:
            continue
        assert all(isinstance(row, Record | BadRow) for row in rows)
