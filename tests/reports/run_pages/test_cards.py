"""Headline cards of runs that a measured run's definitions do not fit: compiled runs, and runs of servers."""

from __future__ import annotations

from tests.reports.example import Store
from tests.reports.html import Page
from tests.reports.run_pages.test_program import store as compiled_store
from tests.reports.test_panels import facts_of
from xlahouse.reports.headline import SPREAD_SQL, headline_cards, read_cards
from xlahouse.reports.run_page import found_in_data
from xlahouse.reports.site import render_site


def compiled(**chosen):
    """The run of test_program, of a batch of 4 on a mesh of tp 2."""
    made = compiled_store(**chosen)
    mesh = [{"axis": "tp", "size": 2}]
    runs = [{**made.tables["runs"][0], "batch_size": 4, "mesh": mesh}]
    return Store({**made.tables, "runs": runs})


def shown(cards):
    texts = [(card.label, card.text, card.spread, card.coverage) for card in cards]
    return [tuple(text.replace("\u00a0", " ") for text in each) for each in texts]


def test_a_compiled_run_has_cards_of_what_it_holds_and_moves():
    """31 GiB of 32. An all-reduce of 100 B among 2 sends 100 B, 6 times on 2 devices: 1,200 B for 4 tokens.

    Two executions of 300 and of 100 cycles.
    """
    made = compiled()
    cards = [card for card in read_cards(made, made.facts())["r"] if not card.why]
    assert shown(cards) == [
        ("Memory of a device", "33.3 GB", "96.9 % of 34.4 GB: it fits", "decode program"),
        ("Wire bytes a token, tp", "300 B", "all devices, a step of 4 tokens", "decode program"),
        ("Collectives a step", "6.00", "on a device", "decode program"),
        (
            "Cycles a step",
            "800",
            "of the compiler's estimate, without collectives",
            "decode program",
        ),
    ]


def test_a_forecast_takes_the_place_of_cycles():
    step = {"run_id": "r", "phase": "decode", "metric": "tpot"}
    times = {"optimistic_ps": 2_000_000_000, "pessimistic_ps": 5_000_000_000}
    made = Store({**compiled().tables, "forecast": [step | times]})
    last = [card for card in read_cards(made, made.facts())["r"] if not card.why][-1]
    assert shown([last])[0][:2] == ("TPOT, forecast", "2.00 ms to 5.00 ms")


def test_a_program_without_batch_and_mesh_sends_bytes_a_step():
    made = compiled_store(kind="TPU v99")
    memory, sent, *_ = read_cards(made, made.facts())["r"]
    assert shown([memory])[0][2] == "the HBM of this kind of device is not known"
    assert shown([sent])[0][:3] == (
        "Wire bytes a step, an axis not known",
        "1.20 kB",
        "all devices, a step",
    )


def test_the_cards_of_times_that_a_compiled_run_lacks_are_one_line(tmp_path):
    (path,) = render_site(compiled(), tmp_path, pages=["overview"]).pages
    text = Page(path.read_text("utf-8")).text
    assert text.count("nothing ran; xlahouse predict r forecasts a step") == 1
    assert "Not known: TTFT, TPOT, Output tokens/s, " in text


def server(reason=None, ttft_s=(0.2, 0.4, 0.9)):
    """Three requests of a server, in a step that names them."""
    requests = [
        {"run_id": "s", "request": k, "source": "server", "ttft_s": value, "reason": reason}
        for k, value in enumerate(ttft_s)
    ]
    known = sorted(value for value in ttft_s if value is not None)
    summary = {
        "run_id": "s",
        "requests": 3,
        "ttft_count": len(known),
        "p50_ttft_s": known[1] if known else None,
    }
    return Store(
        {
            "runs": [{"run_id": "s", "status": "complete"}],
            "devices": [{"run_id": "s", "device_id": 0, "traced": True}],
            "run_summary_v2": [{"run_id": "s"}],
            "serving_summary_v1": [summary],
            "latency_v3": requests,
        }
    )


def server_cards(made):
    cards = headline_cards(facts_of(made, "s"), made.query(SPREAD_SQL).pl())
    return {card.metric: card for card in cards}


def test_a_servers_latency_is_the_median_of_its_requests():
    cards = server_cards(server())
    assert shown([cards["ttft_s"]]) == [
        ("TTFT", "400 ms", "range 200 to 900 ms", "n = 3 of 3 requests")
    ]
    assert "the page on serving has the rate of all" in cards["output_tokens_per_s"].why


def test_a_servers_unknown_latency_has_the_views_reason():
    cards = server_cards(server("the trace does not state tokens by request", (None,) * 3))
    assert cards["ttft_s"].why == "the trace does not state tokens by request"
    assert cards["tpot_s"].why == "the trace does not state tokens by request"


def test_a_servers_latency_is_in_the_index(tmp_path):
    (path,) = render_site(server(), tmp_path, pages=["index"]).pages
    page = Page(path.read_text("utf-8"))
    assert "TTFT (ms)" in page.text
    assert "TPOT (" not in page.text
    assert "Not known of any run: TPOT: the trace shows no request to its end; " in page.text


def test_the_index_says_once_why_no_run_knows_several_metrics(tmp_path):
    """A run without markers: four metrics lack for one reason."""
    device = {"run_id": "s", "device_id": 0, "traced": True}
    made = Store({"runs": [{"run_id": "s", "status": "complete"}], "devices": [device]})
    (path,) = render_site(made, tmp_path, pages=["index"]).pages
    text = Page(path.read_text("utf-8")).text
    reason = "no markers of requests in the trace"
    assert f"TTFT, TPOT, Output (tokens/s), Output per chip (tokens/s): {reason}" in text
    assert text.count(reason) == 1


def issue(severity, code="x"):
    return {"run_id": "s", "severity": severity, "code": code, "message": "m", "count": 1}


def test_findings_about_the_data_are_counted_before_the_first_chart(tmp_path):
    made = Store(
        {**server().tables, "issues": [issue("warning"), issue("warning", "y"), issue("info")]}
    )
    assert found_in_data(facts_of(made, "s")) == "2 warnings, 1 finding for information."
    written = render_site(made, tmp_path, pages=["overview", "quality", "time"]).pages
    html = {path.name: path.read_text("utf-8") for path in written}
    first = html["run-s.html"]
    assert first.index("2 warnings, 1 finding") < first.index('id="verdict"')
    for name, href in (
        ("run-s.html", "#findings"),
        ("run-s.quality.html", "#findings"),
        ("run-s.time.html", "run-s.quality.html#findings"),
    ):
        assert f'<a href="{href}">See the findings</a>' in html[name]


def test_clean_data_are_said_to_be_clean():
    assert found_in_data(facts_of(server(), "s")) == "No errors and no warnings."
    some = Store({**server().tables, "issues": [issue("error"), issue("info")]})
    assert found_in_data(facts_of(some, "s")) == "1 error, 1 finding for information."
