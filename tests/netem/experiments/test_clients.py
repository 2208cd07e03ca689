from netem.experiments.clients import ClientsRun, make_report
from tests.client.demo.answers import answer, counted


def report(together, **counters):
    alone = ClientsRun(1, [answer((1, 2))] * 3, 6.0, counted())
    return make_report(
        {"one after the other": alone, "together": ClientsRun(3, [answer(together)] * 3, 2.0, counted(**counters))}
    )


def test_a_sound_run_has_no_faults_and_counts_its_prompts():
    sound = report((1, 2))
    assert sound.faults == []
    assert sound.title == "3 clients on one server"
    assert [row[:3] for row in sound.rows] == [["one after the other", "1", "1.0"], ["together", "3", "3.0"]]
    assert any("3 held-out prompts" in remark for remark in sound.remarks)
    assert any("Real time" in remark for remark in sound.remarks)


def test_every_fault_is_told():
    faults = report((1, 3), overrun=10, recomputed=2).faults
    assert len(faults) == 3
    assert faults[0].startswith("10.0% of the passes of the run 'together'")
    assert "differ" in faults[1]
    assert faults[2].startswith("2 committed positions")
