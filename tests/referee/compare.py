"""Compares what views say of a drawn run with its truth, and says where they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.referee.answers import Key, Rows
from tests.referee.answers_time import TimeAnswers
from tests.referee.judge import AMBIGUOUS, KNOWN, ONE, UNCONNECTED, judge
from tests.referee.truth import Launch, Truth
from tests.referee.writing import LEAD

STATES = {"aligned": KNOWN, "ambiguous": AMBIGUOUS, "unconnected": UNCONNECTED}
CODES = {AMBIGUOUS: "clocks_ambiguous", UNCONNECTED: "clocks_unconnected"}
Product = list[dict[str, Any]]
# Known differences: what differs, and why it stands.
DEPARTURES = {
    "few launches": "clocks are compared through one device of each host: where each lost launches, "
    "those left may fit several shifts though all devices together fit one",
    "late replicas": "replicas that no collective connects and that start a launch over half a period apart "
    "are two launch instances by time, where one is on a host without markers",
    "cut pipeline": "where a device of a pipeline lost launches, the rule pairs a late device's launch "
    "with its peer's next one; uneven_ends or participants_missing says so",
}


@dataclass(frozen=True)
class Difference:
    """What differs, and the known departure that explains it."""

    text: str
    departure: str = ""

    def __str__(self) -> str:
        return f"[{self.departure}] {self.text}" if self.departure else self.text


@dataclass
class Referee:
    """One run: its truth, the right answers, what the warehouse says (a relation's rows of a run)."""

    truth: Truth
    asked: Callable[[str, str], Product]
    run_id: str
    differences: list[Difference] = field(default_factory=list)

    def rows(self, relation: str) -> Product:
        """All rows of a table or view."""
        return self.asked(relation, self.run_id)

    def differ(self, text: str, departure: str = "") -> None:
        """Note a difference."""
        assert not departure or departure in DEPARTURES
        self.differences.append(Difference(text, departure or self.everywhere))

    def run(self) -> list[Difference]:
        """All differences."""
        self.everywhere = ""
        state, why = judge(TimeAnswers(self.truth))
        self.issues = {row["code"] for row in self.rows("issues")}
        found = {STATES.get(c["state"]) for c in self.rows("clocks") if c["state"] != "reference"}
        said = found.pop() if found else ONE
        if said != state and (said, state) != (AMBIGUOUS, UNCONNECTED):  # async alone tells nothing
            fewer = (said, state) == (AMBIGUOUS, KNOWN) and self.truth.lost
            self.differ(f"clocks: {said}, not {state} ({why})", "few launches" if fewer else "")
        if said in CODES and CODES[said] not in self.issues:
            self.differ(f"clocks: {said} without an issue {CODES[said]}")
        self.known = said in (ONE, KNOWN)
        self.answers = TimeAnswers(self.truth, self.known, said == UNCONNECTED)
        self.clocks()
        if self.launches():
            self.collectives()
            self.views()
        return self.differences

    def clocks(self) -> None:
        """The offset that was subtracted, and how far times may be from the truth."""
        others = [c for c in self.rows("clocks") if c["state"] == "aligned"]
        drift = max(abs(c.drift) for c in self.truth.clocks)
        self.scale = 0.0 if self.known else 1.01e-6 * drift
        self.slack = 30.0 if drift and not self.known else 0.0
        if others:
            clock, true = others[0], self.truth.clocks[1]
            moved = true.offset or true.drift
            self.slack = 6 + 2 * clock["spread_ps"] if moved else 0.0
            # Thirds of the shared ends show a drift; with fewer than three it is still in the times.
            left = 1.01e-6 * abs(true.drift) if clock["pairs"] < 3 else 0.0
            if true.drift:  # else the line is fitted to ends that are rounded to whole picoseconds
                self.scale = 2 * left or 3.0 / max(self.truth.period, 1) + 1e-9
                self.slack += 60 + 2 * left * max(x.end for x in self.truth.launches)
            # Drift is counted from the profile's start; whose time, the definition leaves open.
            zero = true.read(-LEAD) + LEAD
            limit = 1000 + 10 * self.slack + 1.01e-6 * abs(true.drift * true.offset) + left * LEAD
            if abs(clock["clock_offset_ps"] - zero) > limit:
                self.differ(f"clocks: offset {clock['clock_offset_ps']}, not {zero}")

    def launches(self) -> bool:
        """Match launches to the truth by device and order; compare instances and steps."""
        product = defaultdict(list)
        for row in sorted(self.rows("launches"), key=lambda r: r["start_ps"]):
            product[row["device_id"]].append(row)
        self.pairs: list[tuple[dict[str, Any], Launch, int]] = []
        for device, own in self.answers.of_device.items():
            if len(own) != len(product[device]):
                self.differ(f"launches of {device}: {len(product[device])}, not {len(own)}")
                return False
            for place, (row, launch) in enumerate(zip(product[device], own, strict=True)):
                self.pairs.append((row, launch, place))
        self.partition(
            "launch instances",
            [(r["launch_instance"], self.answers.number(x)) for r, x, _ in self.pairs],
        )
        self.step_of: dict[tuple, Key] = {}
        for row, launch, _ in self.pairs:
            step = self.answers.step(launch)
            if step[0] is not None and (row["request"], row["step"]) != step:
                got = (row["request"], row["step"])
                self.differ(f"launch {launch.number} on {launch.device}: step {got}, not {step}")
            self.step_of[launch.device, row["request"], row["step"]] = step
            self.step_of[row["request"], row["step"]] = step
        return True

    def partition(self, what: str, pairs: list[tuple[Any, Any]]) -> None:
        """Compare two ways to number the same things."""
        ours, theirs = defaultdict(set), defaultdict(set)
        for mine, true in pairs:
            ours[true].add(mine)
            theirs[mine].add(true)
        split = {k: v for k, v in ours.items() if len(v) > 1}
        mixed = {k: v for k, v in theirs.items() if len(v) > 1}
        if split or mixed:
            said = {"uneven_ends", "participants_missing"} & self.issues
            if self.truth.staged and self.truth.lost and said:
                self.everywhere = "cut pipeline"
            late = 0 < len(self.truth.marked) < self.truth.hosts and not self.answers.transfers
            text = f"{what}: split {_few(split)}, mixed {_few(mixed)}"
            self.differ(text, "late replicas" if late and not mixed else "")

    def collectives(self) -> None:
        """Match collectives to the truth by device, launch and op; compare instances."""
        launch_of = {(r["device_id"], r["launch"]): x for r, x, _ in self.pairs}
        right = {(t.launch.device, t.launch.number, t.name): t for t in self.answers.transfers}
        self.instance_of: dict[int, Key] = {}
        pairs = []
        for row in self.rows("collectives"):
            launch = launch_of.get((row["device_id"], row["launch"]))
            key = (row["device_id"], launch.number if launch else None, row["op"])
            transfer = right.pop(key, None)
            if transfer is None:
                self.differ(f"collectives: {key} is not in the run")
                continue
            pairs.append((row["instance"], self.instance(transfer)))
            self.instance_of[row["instance"]] = self.instance(transfer)
        for key in right:
            self.differ(f"collectives: {key} is missing")
        self.partition("instances", pairs)

    def instance(self, transfer: Any) -> Key:
        """Its key; members whose clocks cannot be compared are apart."""
        host = self.truth.host(transfer.launch.device)
        return transfer.instance if self.answers.paired else (*transfer.instance, host)

    def views(self) -> None:
        """Every view that the referee has answers for."""
        right, time = self.answers, self.device_step
        checks: list[tuple[str, Rows, Callable[[dict], Key | None]]] = [
            ("traffic_volume", right.volume(), _of("device_id", "phase", "axis", "kind")),
            ("device_time", right.device_time, time),
            ("comm_compute", right.comm_compute(), _of("phase")),
            ("exposed_collective", right.exposed(), _of("phase", "axis", "kind", "op")),
            ("launch_overhead", right.overhead(), self.launch_place),
            ("traffic_interval", right.intervals(), self.interval_key),
        ]
        for view, rows, key in checks:
            self.check(view, rows, self.rows(view), key)
        if self.known:  # else arrivals are NULL, and with them the axis of a wait
            wait = right.sync_wait()
            self.check(
                "sync_wait", wait, self.rows("sync_wait"), lambda r: _add(time(r), r["axis"])
            )
        self.bandwidth()
        self.matrix()
        self.idle()
        self.windows()
        if self.known:
            self.check("step_time", right.step_time(), self.rows("step_time"), self.step)
            self.check("load_balance", right.step_time(), self.rows("load_balance"), self.step)
        self.latency()

    def device_step(self, row: dict) -> Key | None:
        """(device, step) in the truth's terms."""
        step = self.step_of.get((row["device_id"], row["request"], row["step"]))
        return None if step is None else (row["device_id"], *step)

    def step(self, row: dict) -> Key | None:
        """The step in the truth's terms."""
        return self.step_of.get((row["request"], row["step"]))

    def launch_place(self, row: dict) -> Key | None:
        """(device, number of the launch on it)."""
        places = {(r["device_id"], r["launch"]): p for r, _, p in self.pairs}
        return (row["device_id"], places.get((row["device_id"], row["launch"])))

    def interval_key(self, row: dict) -> Key | None:
        """(device, launch instance, op)."""
        instance = self.instance_of.get(row["instance"])
        return None if instance is None else (row["device_id"], instance[0], row["op"])

    def check(
        self, view: str, right: Rows, product: Product, key: Callable[[dict], Key | None]
    ) -> None:
        """Compare the columns that both have, row by row, outside every marker aside."""
        seen = {key(row): row for row in product if not self.is_nowhere(row)}
        if None in seen:
            self.differ(f"{view}: a row of no known key, {_short(seen.pop(None))}")
        for place, row in right.items():
            if place not in seen:
                if row.get("idle_ps") is None or row["idle_ps"] > self.slack:
                    self.differ(f"{view} {place}: no row, not {row}")
                continue
            found = seen.pop(place)
            for column, value in row.items():
                lasted = found.get("transfer_ps")
                if column in found and not self.same(column, found[column], value, lasted):
                    self.differ(f"{view} {place}: {column} {found[column]}, not {value}")
        for place, row in seen.items():
            if row.get("idle_ps", self.slack + 1) > self.slack:
                self.differ(f"{view} {place}: a row that should not be, {_short(row)}")

    def is_nowhere(self, row: dict) -> bool:
        """Whether a row sums up what no marker holds, in a run with markers."""
        has = row.get("phase", "") is None or row.get("step", "") is None
        own = {"instance", "launch", "burst_index"} & set(row)
        return has and bool(self.answers.named) and not own

    def same(self, column: str, found: Any, value: Any, lasted: int | None = None) -> bool:
        """Within rounding, the clocks' spread and the drift that stays in.

        lasted: of a transfer's rate, its time in ps: the rate is off by as much of it as the time.
        """
        if found is None or value is None or isinstance(value, str | bool):
            return found == value
        if column.endswith("_ps"):
            return abs(found - value) <= 1 + self.slack + self.scale * abs(value)
        if column.endswith("_s") and not column.endswith("per_s"):
            return abs(found - value) <= (2 + self.slack) * 1e-12 + self.scale * abs(value)
        part = 10 * self.scale + (self.slack / lasted if lasted else 0)
        return abs(found - value) <= (1e-6 + part) * max(abs(value), 1e-1)

    def bandwidth(self) -> None:
        """collective_bandwidth; what compares clocks is NULL where they are not known."""
        right = self.answers.bandwidth()
        if not self.known:
            right = {k: v for k, v in right.items() if not self.answers.crosses(k[2])}
        product = [
            {**row, "truth": self.instance_of.get(row["instance"])}
            for row in self.rows("collective_bandwidth")
        ]
        for row in [r for r in product if r["truth"] and len(r["truth"]) == 4]:
            crossing = self.answers.crosses(row["truth"][2])
            if crossing and row["skew_ps"] is not None and row["participants_seen"] > 1:
                alone = len({self.truth.host(d) for d in row["truth"][2]}) < len(row["truth"][2])
                if not alone:
                    self.differ(f"collective_bandwidth {row['truth']}: skew across clocks")
        keep = [r for r in product if not r["truth"] or r["truth"][:3] in right]
        self.check("collective_bandwidth", right, keep, lambda r: r["truth"] and r["truth"][:3])

    def matrix(self) -> None:
        """traffic_matrix by ring."""
        rows = [r for r in self.rows("traffic_matrix") if r["algorithm"] == "ring" and r["bytes"]]
        key = _of("phase", "axis", "kind", "source_device_id", "target_device_id")
        self.check("traffic_matrix", self.answers.matrix(), rows, key)

    def idle(self) -> None:
        """bubble by cause, and masked_ps."""
        rows = self.rows("bubble")
        left = (None,) if self.answers.knows_periods else (None, "between_steps")
        product = [r for r in rows if r["idle_ps"] and r["cause"] not in left]
        right = self.answers.idle()
        self.check("bubble", right, product, lambda r: _add(self.device_step(r), r["cause"]))
        for place, row in self.answers.masked().items():
            own = [r for r in rows if r["cause"] == "pipeline"]
            got = {r["masked_ps"] for r in own if self.device_step(r) == place}
            if len(got) != 1 or not self.same("masked_ps", got.pop(), row["masked_ps"]):
                self.differ(f"bubble {place}: masked_ps {got}, not {row}")

    def windows(self) -> None:
        """traffic_window, in order."""
        product = defaultdict(list)
        for row in self.rows("traffic_window"):
            if row["scope"] in ("device", "run"):
                product[row["device_id"]].append(row)
        right = self.answers.windows() | (self.answers.run_windows() if self.known else {})
        numbered = [
            {**row, "key": (device, place)}
            for device, own in product.items()
            for place, row in enumerate(sorted(own, key=lambda r: r["burst_index"]))
            if self.known or device is not None
        ]
        self.check("traffic_window", right, numbered, lambda r: r["key"])

    def latency(self) -> None:
        """latency of requests; NULL where it is ambiguous how far the clocks are apart."""
        rows = [r for r in self.rows("latency") if r["request"] is not None]
        if "clocks_ambiguous" not in self.issues:
            right = self.answers.latency()
            # Of steps that end on different clocks, these have drifted apart since the request began.
            longest = max((row["e2e_s"] or 0.0 for row in right.values()), default=0.0)
            self.slack += self.scale * longest * 1e12
            self.check("latency", right, rows, _of("request"))
            return
        for row in rows:
            if row["ttft_s"] is not None:
                self.differ(f"latency {row['request']}: ttft {row['ttft_s']} across clocks")


def _of(*names: str) -> Callable[[dict], Key]:
    return lambda row: tuple(row[name] for name in names)


def _add(key: Key | None, more: Any) -> Key | None:
    return None if key is None else (*key, more)


def _few(found: dict) -> str:
    return f"{dict(list(found.items())[:3])} of {len(found)}"


def _short(row: dict | None) -> dict:
    return {k: v for k, v in (row or {}).items() if v is not None and k != "run_id"}


def unknown(found: list[Difference]) -> list[Difference]:
    """Those that no departure explains."""
    return [each for each in found if not each.departure]


def lines(seed: int, truth: Truth, found: list[Difference], most: int = 6) -> Iterator[str]:
    """What to print of it."""
    yield f"seed {seed}: {len(found)} differences; {truth.notes}"
    yield from (f"  {text}" for text in found[:most])
