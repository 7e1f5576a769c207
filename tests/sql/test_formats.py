"""The same rows in every format, whole files only, and no more rows than asked for."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.layers import first_few
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.sql import Warehouse
from xlahouse.sql.drawing import short
from xlahouse.sql.formats import BY_SUFFIX, TABLE_ROWS, WRITERS, format_for, write_result

SQL = """
select * from (values
    (1, 0.1, 'a|b', true, [1, 2], {'axis': 'tp'}, 18446744073709551615::ubigint, 5::hugeint),
    (2, null, null, null, null, null, null, null)
) as v (i, f, t, b, l, s, u, h)
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(write_warehouse(tmp_path_factory.mktemp("formats") / "w", {}))


def written(warehouse: Warehouse, format: str, path: Path, limit: int | None = None) -> str:
    write_result(warehouse.query(SQL), format, path, limit)
    return path.read_text()


def test_table(warehouse: Warehouse, tmp_path: Path) -> None:
    assert written(warehouse, "table", tmp_path / "x").splitlines() == [
        "i     f  t     b     l      s                                 u     h",
        "-  ----  ----  ----  -----  -------------  --------------------  ----",
        '1   0.1  a|b   true  [1,2]  {"axis":"tp"}  18446744073709551615     5',
        "2  NULL  NULL  NULL  NULL   NULL                           NULL  NULL",
    ]


def test_csv(warehouse: Warehouse, tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(written(warehouse, "csv", tmp_path / "x"))))
    assert rows == [
        ["i", "f", "t", "b", "l", "s", "u", "h"],
        ["1", "0.1", "a|b", "True", "[1,2]", '{"axis":"tp"}', "18446744073709551615", "5"],
        ["2", "", "", "", "", "", "", ""],
    ]


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_json(warehouse: Warehouse, tmp_path: Path, format: str) -> None:
    text = written(warehouse, format, tmp_path / "x")
    rows = json.loads(text) if format == "json" else [json.loads(x) for x in text.splitlines()]
    values = [1, 0.1, "a|b", True, [1, 2], {"axis": "tp"}, 18446744073709551615, 5]
    assert rows[0] == dict(zip("iftblsuh", values, strict=True))
    assert rows[1] == {"i": 2, **dict.fromkeys("ftblsuh")}


def test_markdown(warehouse: Warehouse, tmp_path: Path) -> None:
    lines = written(warehouse, "markdown", tmp_path / "x").splitlines()
    assert lines[0] == "| i | f | t | b | l | s | u | h |"
    assert lines[2].startswith("| 1 | 0.1 | a\\|b | true |")
    assert len(lines) == 4


def test_parquet_and_arrow(warehouse: Warehouse, tmp_path: Path) -> None:
    write_result(warehouse.query(SQL), "parquet", tmp_path / "x.parquet")
    write_result(warehouse.query(SQL), "arrow", tmp_path / "x.arrow")
    wanted = warehouse.query(SQL).arrow()
    assert pq.ParquetFile(tmp_path / "x.parquet").read().to_pylist() == wanted.to_pylist()
    with pa.ipc.open_file(tmp_path / "x.arrow") as reader:
        assert reader.read_all().equals(wanted)


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize(("limit", "rows"), [(None, 2), (1, 1), (0, 0), (9, 2)])
def test_limit(
    warehouse: Warehouse, tmp_path: Path, format: str, limit: int | None, rows: int
) -> None:
    assert write_result(warehouse.query(SQL), format, tmp_path / "x", limit) == rows


@pytest.mark.parametrize("format", WRITERS)
def test_no_rows(warehouse: Warehouse, tmp_path: Path, format: str) -> None:
    assert write_result(warehouse.query("from ops"), format, tmp_path / "x") == 0
    assert (tmp_path / "x").stat().st_size > 0 or format in ("jsonl", "line")


def test_no_rows_of_json_is_a_list(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    write_result(warehouse.query("from ops"), "json")
    assert json.loads(capsys.readouterr().out) == []


def test_a_limit_stops_the_query(warehouse: Warehouse, tmp_path: Path) -> None:
    # Rows beyond the limit are never computed: this would not end.
    endless = "with recursive n as (select 1 as i union all select i + 1 from n where i < 9) from n"
    assert write_result(warehouse.query(endless), "csv", tmp_path / "x", 3) == 3


def test_a_table_on_the_terminal_is_for_reading(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    write_result(warehouse.query(f"from range({TABLE_ROWS + 1})"), "table")
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == TABLE_ROWS + 2
    assert "--limit N" in shown.err
    write_result(warehouse.query(f"select repeat('x', 200) from range({TABLE_ROWS})"), "table")
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) < 100
    assert shown.err == ""


def test_a_failed_query_leaves_the_file_as_it_was(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("before")
    late = "select cast(if(range = 200000, 'x', '1') as int) as a from range(200001)"
    with pytest.raises(QueryError):
        write_result(warehouse.query(late), "csv", path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]


def test_a_table_in_a_file_is_whole(warehouse: Warehouse, tmp_path: Path) -> None:
    for format in ("table", "markdown"):
        path = tmp_path / format
        rows = write_result(warehouse.query(f"from range({TABLE_ROWS + 5})"), format, path)
        assert rows == TABLE_ROWS + 5
        assert len(path.read_text().splitlines()) == TABLE_ROWS + 5 + 2


def test_a_link_stays_a_link(warehouse: Warehouse, tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "x.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    write_result(warehouse.query("select 1 as a"), "csv", link)
    assert link.is_symlink()
    assert target.read_text() == "a\n1\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in target.parent.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("format", WRITERS)
def test_a_fifo_is_written_into(warehouse: Warehouse, tmp_path: Path, format: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # it is there before the writer
    with open(reader, "rb") as opened:
        assert write_result(warehouse.query("select 1 as a"), format, fifo) == 1
        raw = opened.read()  # a pipe holds so much
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    write_result(warehouse.query("select 1 as a"), format, tmp_path / "file")
    assert raw == (tmp_path / "file").read_bytes()


def test_another_name_of_stdout_is_stdout(
    warehouse: Warehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "out"
    link.symlink_to(f"/dev/fd/{sys.stdout.fileno()}")
    write_result(warehouse.query("select 1 as a"), "csv", link)
    assert capfd.readouterr().out == "a\n1\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("'infinity'::timestamp", "infinity"),
        ("'-infinity'::date", "-infinity"),
        ("'290000-01-01'::timestamp", "290000-01-01 00:00:00"),
        ("'2020-01-01 00:00:00.123456789'::timestamp_ns", "2020-01-01 00:00:00.123456789"),
        ("'infinity'::timestamp_s", "infinity"),
        ("['infinity'::timestamp]", "[infinity]"),
        ("interval '1 month 3 days'", "1 month 3 days"),
        ("'12:00:00+03'::timetz", "12:00:00+03"),
        ("'1010'::bit", "1010"),
        ("340282366920938463463374607431768211455::uhugeint", str(2**128 - 1)),
        ("170141183460469231731687303715884105727::hugeint", str(2**127 - 1)),
    ],
)
def test_values_that_python_cannot_hold_are_text(
    warehouse: Warehouse, tmp_path: Path, value: str, text: str
) -> None:
    for format in ("table", "csv", "json", "jsonl", "markdown"):
        path = tmp_path / format
        assert write_result(warehouse.query(f"select {value} as a, 1 as b"), format, path) == 1
        assert text in path.read_text()
    assert str(warehouse.query(f"select {value} as a").rows[0][0]) == text


@pytest.mark.parametrize("value", ["interval 1 month", "'infinity'::timestamp_s"])
def test_values_that_a_format_cannot_hold(warehouse: Warehouse, tmp_path: Path, value: str) -> None:
    with pytest.raises(QueryError, match=r"Parquet cannot hold a value: .* to varchar"):
        write_result(warehouse.query(f"select {value} as a"), "parquet", tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", WRITERS)
def test_a_name_that_stands_twice_is_numbered(
    warehouse: Warehouse, tmp_path: Path, format: str
) -> None:
    result = warehouse.query("select 1 as op, 2 as op, 3 as op_1, 4 as op")
    names = ["op", "op_2", "op_1", "op_3"]
    assert result.columns == result.schema.names == names
    path = tmp_path / "x"
    write_result(result, format, path)
    if format == "parquet":
        assert pq.ParquetFile(path).read().to_pylist() == [
            dict(zip(names, range(1, 5), strict=True))
        ]
    elif format == "arrow":
        with pa.ipc.open_file(path) as reader:
            assert reader.read_all().column_names == names
    elif "json" in format:
        assert dict(zip(names, range(1, 5), strict=True)) in [
            *([json.loads(path.read_text())] if format == "jsonl" else json.loads(path.read_text()))
        ]
    elif format == "line":
        lines = [line.split() for line in path.read_text().splitlines()[1:]]
        assert lines == [[name, str(at)] for at, name in enumerate(names, start=1)]
    else:
        assert re.findall(r"\w+", path.read_text().splitlines()[0]) == names


def test_names_that_stand_twice_keep_their_values(warehouse: Warehouse) -> None:
    assert warehouse.query("select 1 as op, 2 as op").dicts() == [{"op": 1, "op_1": 2}]


def test_a_folder_that_is_not_there(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="cannot be written"):
        write_result(warehouse.query(SQL), "csv", tmp_path / "none" / "x.csv")


def test_formats_by_suffix() -> None:
    assert {format_for(Path(f"x{suffix}")) for suffix in BY_SUFFIX} == set(WRITERS) - {
        "table",
        "line",
    }
    assert format_for(Path("x.txt")) == format_for(None) == "table"


def test_a_whole_number_of_bytes_is_read_in_full():
    assert [short(v) for v in (5368709120.0, 4.5, 1 / 3, 1e300, float("inf"), -0.0)] == [
        "5368709120",
        "4.5",
        "0.333333",
        "1e+300",
        "inf",
        "-0",
    ]


def test_the_first_rows_are_those_of_the_whole_result(warehouse: Warehouse) -> None:
    sql = """
        select
            i, i::double / 3 as d, 'x' || i as t, i > 1 as b, [i, null] as l, null::varchar as n,
            [{'axis': 'tp', 'size': i}] as mesh, sum(i) over () as total, 18446744073709551615 as u,
            make_timestamptz(1700000000000000 + i) as at
        from (select unnest(range(5)) as i) order by i desc
    """
    whole = [list(row) for row in warehouse.query(sql).rows]
    assert warehouse.query(sql).head(3) == whole[:3]
    kept = warehouse.query(sql)
    assert kept.arrow().num_rows == 5
    assert kept.head(2) == whole[:2]
    assert str(whole[0][-1]) == "2023-11-14 22:13:20.000004+00:00"


@pytest.mark.parametrize(
    "value", ["'infinity'::timestamptz", "'290000-01-01'::timestamptz", "1.5", "interval 1 month"]
)
def test_first_rows_that_python_has_no_value_for(warehouse: Warehouse, value: str) -> None:
    sql = f"select {value} as v"
    assert warehouse.query(sql).head(1) == [list(row) for row in warehouse.query(sql).rows]


@pytest.mark.parametrize("format", first_few(["parquet", "arrow", "csv"], 1))
def test_what_is_written_is_never_held_whole(tmp_path: Path, format: str) -> None:
    """Texts of 600 MB in all (60 MB as csv, which is slower), by a process of its own."""
    root = write_warehouse(tmp_path / "w", {})
    rows = 600_000 if format == "csv" else 6_000_000
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from xlahouse.sql import Warehouse\n"
        "from xlahouse.sql.formats import write_result\n"
        "root, out, format, rows = sys.argv[1:]\n"
        "with Warehouse(root) as warehouse:\n"
        "    def write(count):\n"
        "        sql = f\"select range as a, repeat('x', 100) as t from range({count})\"\n"
        "        write_result(warehouse.query(sql), format, Path(out))\n"
        "    write(70_000)\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    write(int(rows))\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    arguments = [str(root), str(tmp_path / "out"), format, str(rows)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 < rows * 100 / (1 if format == "csv" else 4)


EVIL = "select unnest(['=cmd()', '+1', '-2', '@A1', 'a-b', chr(27) || '[2J']) as name, -3 as number"


def test_a_csv_file_holds_no_formula_but_stdout_and_numbers_stay(warehouse, tmp_path, capsys):
    write_result(warehouse.query(EVIL), "csv", tmp_path / "x.csv")
    names, numbers = zip(
        *(line.split(",") for line in (tmp_path / "x.csv").read_text().splitlines()), strict=True
    )
    assert names == ("name", "'=cmd()", "'+1", "'-2", "'@A1", "a-b", "\x1b[2J")
    assert set(numbers[1:]) == {"-3"}
    write_result(warehouse.query(EVIL), "csv", tmp_path / "y.csv", formulas=True)
    assert (tmp_path / "y.csv").read_text().splitlines()[1] == "=cmd(),-3"


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_controls_and_hidden_marks_are_shown_as_escapes(warehouse, tmp_path, format):
    sql = "select chr(27) || ']0;x' || chr(7) as \"a\tb\", 'a' || chr(8238) || 'b' as c"
    write_result(warehouse.query(sql), format, tmp_path / "x")
    text = (tmp_path / "x").read_text()
    assert text.replace("\n", "").isprintable()
    for shown in ("\\x1b]0;x\\x07", "a\\u202eb", "a\\tb"):
        assert shown in text
