"""Who is drawn for first: the picture that is waited for, before warm-up and leave-one-out."""

from __future__ import annotations

import threading

from widemargin.play import scheduler as scheduling
from widemargin.play.catalogue import MACHINES
from widemargin.play.scheduler import FitScheduler

POINTS = [[-1.0, -1.0, 0], [-0.8, -0.4, 0], [1.0, 1.0, 1], [0.7, 1.2, 1]]


def test_warm_up_draws_every_machine_the_first_one_first(monkeypatch):
    seen = []
    monkeypatch.setattr(scheduling, "_fit_and_draw", lambda given: seen.append(given["machine"]))
    FitScheduler().warm_up("LOOSVC")
    assert seen[0] == "LOOSVC"
    assert set(seen) == set(MACHINES)


def test_what_is_warmed_up_can_be_drawn():
    for name in ("SVC", "AdaBoostClassifier"):
        for given in scheduling._small_questions(name):
            scheduling._fit_and_draw(given)


def test_a_picture_goes_before_the_warm_up(monkeypatch):
    scheduler, order, asker = FitScheduler(), [], []

    def ask():
        scheduler.picture({"machine": "SVC", "points": POINTS})
        order.append("picture")

    def fit_and_draw(given):
        order.append("warm-up")
        if not asker:  # somebody asks while the first machine is warmed up
            asker.append(threading.Thread(target=ask))
            asker[0].start()
            while scheduler._n_asked == 0:
                pass

    monkeypatch.setattr(scheduling, "_fit_and_draw", fit_and_draw)
    monkeypatch.setattr(
        scheduling, "MACHINES", {"SVC": MACHINES["SVC"], "LPSVC": MACHINES["LPSVC"]}
    )
    scheduler.warm_up()
    asker[0].join()
    assert order[:2] == ["warm-up", "picture"]
    assert order.count("warm-up") > 2


def test_pictures_do_not_wait_for_leave_one_out(monkeypatch):
    scheduler, go_on, begun = FitScheduler(), threading.Event(), threading.Event()

    def slowly(fitted):
        begun.set()
        assert go_on.wait(60)
        return {}

    monkeypatch.setattr(scheduling, "leave_one_out", slowly)
    body = {"machine": "LPSVC", "points": POINTS}
    thread = threading.Thread(target=scheduler.left_out, args=(body,))
    thread.start()
    assert begun.wait(60)
    assert scheduler.picture({"machine": "SVC", "points": POINTS})["milliseconds"] > 0
    go_on.set()
    thread.join()
