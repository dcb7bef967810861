"""A store full of finished history, for the tests of retention: made by verbs alone.

Three chains made no mutation (one reserved an event that was released, replaced and skipped), one
made one; a derived event was consumed, an output lies in a topic nobody consumes. On the bus one
event was delivered and one has a dead letter, one deferred event fired and one is still to come.
"""

from __future__ import annotations

from duly.rules.retention import Tidied
from duly.rules.schedule import DAY_MS
from duly.rules.word import Failure, Progress
from duly.store import Store
from duly.store.record import Action, Commit, Reserve
from duly.store.upkeep import TidyTurn
from tests.store import post
from tests.store.exam import World
from tests.store.scene import EMITTING, NOON, PATHS, WORKFLOW, Scene, Then, deployed, publication

BEFORE = NOON + DAY_MS
NOW = NOON + 10 * DAY_MS
WHOLE = Tidied(events=4, runs=5, mutations=1, bus_events=1, deferred=1)


async def file_mails(scene: Scene) -> None:
    """Take both inputs, change something outside, and publish what is still to be told."""
    await scene.start()
    await scene.go(*PATHS[EMITTING])
    await scene.commit(Commit((publication("row", "row:1"),), logs='{"lines":[],"dropped":0}'))


async def tell_row(scene: Scene) -> None:
    """Take the derived event to its end; what comes of it nobody consumes."""
    await scene.start("tell")
    await scene.prepare((Reserve("row", "row:1"),))
    await scene.go(Progress.BEGIN_MUTATE)
    await scene.commit(Commit((publication("told", "told:1"),)))


async def give_up(scene: Scene) -> None:
    """Fail on an event, let it go with other content, and skip it."""
    await scene.start()
    await scene.prepare((Reserve("mail", "mail:2"),))
    await scene.go(Progress.BEGIN_MUTATE, Failure.TRANSIENT)
    await scene.publish("mail", "mail:2", "second")
    await scene.go(Then.FOLLOW)
    await scene.prepare(())
    await scene.commit()
    await scene.store.skip_event(
        WORKFLOW,
        "mail",
        "mail:2",
        successor_id="run_none",
        action=scene.action("skip"),
        now=scene.tick(),
    )


async def poll(scene: Scene) -> None:
    """Look, and find nothing."""
    await scene.start("poll")
    await scene.commit()


async def attic(world: World) -> Scene:
    """Fill a store with history of one noon."""
    scene = await deployed(world.store)
    await file_mails(scene)
    await tell_row(scene)
    await give_up(scene)
    await poll(scene)
    await post.dead(world)
    await world.store.begin_delivery(2, post.BOTH, now=NOON)
    await world.store.finish_delivery(2, post.FIRST, 1, now=NOON)
    await world.store.begin_delivery(2, post.BOTH, now=NOON)
    await world.store.finish_delivery(2, post.SECOND, 1, now=NOON)
    await world.store.defer(post.NEWS, delay_ms=0, now=NOON)
    await world.store.defer(post.NEWS, delay_ms=30 * DAY_MS, now=NOON)
    await world.store.promote_due(now=NOON, limit=10)
    world.kept["scene"] = scene
    return scene


async def tidy(store: Store, *, before: int = BEFORE, limit: int = 200) -> Tidied:
    """Go through everything."""
    turn: TidyTurn | None = TidyTurn()
    tidied = Tidied()
    while turn is not None:
        turned = await store.tidy(turn, before=before, now=NOW, limit=limit)
        tidied += turned.tidied
        turn = turned.next
    return tidied


def act(verb: str) -> Action:
    """Make the record of an act nobody else did."""
    return Action(f"action_{verb}", "ada", verb)
