"""A project whose duly.toml describes a shop: checked, deployed and run in both languages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import duly
from duly.api.build import build_host
from duly.api.project import find_project
from duly.errors import ConfigError
from tests.connectors import shop as double
from tests.connectors.shop import Shop, status

pytestmark = pytest.mark.anyio

SETTINGS = """
[connectors.shop]
use = "http"
url = "{url}/a"
auth = {{ type = "bearer", secret = "token" }}
allow = ["127.0.0.1"]

[connectors.shop.operations.create_order]
does = "Order something."
method = "POST"
path = "/orders"
arguments = {{ item = "string", count = "integer?" }}
key = {{ header = "Idempotency-Key" }}
verify = {{ path = "/orders", query = {{ key = "{{key}}" }}, items = "orders", match = "key" }}
trial = {{ item = "trial", count = 1 }}
returns = {{ id = "integer", item = "string" }}
lag_s = 0

[connectors.shop.operations.orders]
path = "/orders"
paging = {{ items = "orders", cursor = "next", parameter = "cursor" }}
returns = {{ id = "integer", item = "string" }}
"""
PYTHON = """
from duly import workflow

flow = workflow("tea", topics=["wish", "ordered"])


@flow.producer(every="1h")
async def wish(ctx, state):
    page = await ctx.shop.orders()
    await ctx.publish("wish", message_id="1", title="A wish", payload=len(page["items"]))


@flow.consumer("wish", publishes=["ordered"])
class order:
    async def prepare(self, ctx, state):
        wishes = await ctx.peek("wish", limit=1)
        if not wishes:
            return {"reservations": []}
        return {
            "reservations": [{"topic": "wish", "ids": [wishes[0]["message_id"]]}],
            "data": {"item": "tea"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.shop.create_order(item=prepared["data"]["item"], count=2)

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        number = result["result"]["id"]
        await ctx.publish("ordered", message_id="1", title=f"Order {number}", payload=number)
"""
JAVASCRIPT = """
export default Keep.workflow({
  name: "tea",
  topics: { wish: {} },
  producers: {
    wish: {
      schedule: { interval: "1h" },
      publishes: ["wish"],
      handler: async (ctx, state) => {
        await ctx.publish("wish", { messageId: "1", title: "A wish" });
      },
    },
  },
  consumers: {
    order: Keep.consumer({
      subscribe: ["wish"],
      async prepare(ctx, state) {
        const wishes = await ctx.peek("wish", { limit: 1 });
        const ids = wishes.map((each) => each.messageId);
        return { reservations: ids.length ? [{ topic: "wish", ids }] : [], data: {} };
      },
      async mutate(ctx, prepared) {
        await ctx.shop.createOrder({ item: "tea" });
      },
    }),
  },
});
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop").mkdir()
    with Shop(tmp_path / "shop") as made:
        yield made


def make_host(shop: Shop, folder: Path, settings: str = SETTINGS) -> duly.Host:
    (folder / "duly.toml").write_text(settings.format(url=shop.url))
    return build_host(find_project(str(folder), {}, folder))


@pytest.mark.parametrize(
    "manner", [double.well, double.lost, double.half, status(500, is_done=True)]
)
async def test_an_order_is_made_once_although_its_answer_is_lost(
    shop: Shop, tmp_path: Path, manner: double.Manner
) -> None:
    """L5, K2: the host asks the shop by the key, and finds the order."""
    async with make_host(shop, tmp_path) as host:
        await host.set_secret("shop", "token", "s3cret-of-the-shop")
        await host.prove("shop.create_order")
        shop.next(double.well, manner)  # a list, then the order
        await host.deploy(duly.Source("python", PYTHON), by="me", grant=True)
        await host.drain()
        made = [(each["item"], each["count"]) for each in shop.orders()]
        assert made == [("trial", 1), ("tea", 2)]
        (event,) = await host.events("tea", topic="ordered")
        assert event.title == "Order 2"
        tokens = {each.headers["authorization"] for each in shop.asks}
        assert tokens == {"Bearer s3cret-of-the-shop"}


async def test_a_script_in_javascript_calls_an_operation(shop: Shop, tmp_path: Path) -> None:
    """A1: by its name in camelCase."""
    async with make_host(shop, tmp_path) as host:
        await host.set_secret("shop", "token", "s3cret-of-the-shop")
        await host.deploy(duly.Source("javascript", JAVASCRIPT), by="me", grant=True)
        await host.drain()
        assert [each["item"] for each in shop.orders()] == ["tea"]


async def test_check_knows_the_types_of_an_operation(shop: Shop, tmp_path: Path) -> None:
    """W5: a wrong argument and a wrong name are found before anything runs."""
    wrong = PYTHON.replace("count=2", 'count="two"')
    async with make_host(shop, tmp_path) as host:
        said = await host.check(duly.Source("python", wrong))
        assert any("count" in str(each) for each in said), said
        wrong = PYTHON.replace("create_order", "create_ordr")
        said = await host.check(duly.Source("python", wrong))
        assert any("create_order" in str(each) for each in said), said


async def test_a_mistake_is_told_with_file_table_and_key(shop: Shop, tmp_path: Path) -> None:
    """K14, A1: before a host is opened."""
    wrong = SETTINGS.replace('method = "POST"', 'method = "POTS"')
    with pytest.raises(ConfigError) as caught:
        make_host(shop, tmp_path, wrong)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/duly.toml: [connectors.shop]: ")
    assert 'operations.create_order.method: "POTS" is none of' in said
    with pytest.raises(ConfigError, match='Did you mean "operations"'):
        make_host(shop, tmp_path, SETTINGS.replace(".operations.orders", ".operation.orders"))


async def test_no_secret_header_is_kept_of_what_a_service_repeats(
    shop: Shop, tmp_path: Path
) -> None:
    """A5, K4: redaction knows each of them, in whatever the service says."""
    one, two = "s3cret-of-the-key", "s3cret-of-the-app"
    more = 'secret = "token", headers = {{ X-App = "app" }}'
    async with make_host(shop, tmp_path, SETTINGS.replace('secret = "token"', more, 1)) as host:
        await host.deploy(duly.Source("python", PYTHON), by="me", grant=True)
        await host.set_secret("shop", "token", one)
        await host.set_secret("shop", "app", two)
        shop.next(*[status(400, value={"you sent": [one, two]})] * 9)
        await asyncio.wait_for(host.drain(), 30)
        said = f"{await host.attention()} {await host.runs()}"
    asked = {(each.headers["authorization"], each.headers["x-app"]) for each in shop.asks}
    assert asked == {(f"Bearer {one}", two)}
    assert "you sent" in said
    assert "s3cret-of" not in said


async def test_without_its_secret_a_run_waits_for_a_person(shop: Shop, tmp_path: Path) -> None:
    """A5: and nothing was sent."""
    async with make_host(shop, tmp_path) as host:
        await host.deploy(duly.Source("python", PYTHON), by="me", grant=True)
        await asyncio.wait_for(host.drain(), 30)
        assert shop.asks == []
        (flow,) = await host.attention()
        assert "token" in str(flow.reason)
