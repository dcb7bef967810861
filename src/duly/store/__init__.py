"""Where everything is kept: every verb of the store and how durable it is, in one table.

Law: one verb, one transaction. A barrier waits for the disk, a rider for the commit, a read changes
nothing. Nothing outside this room knows SQL.
"""

from __future__ import annotations

from duly.store import (
    approval,
    blob,
    bus,
    carrying,
    delivery,
    event,
    forgetting,
    granted,
    ingress,
    lane,
    ledger,
    model,
    people,
    proof,
    proposal,
    recording,
    repair,
    run,
    seal,
    sent,
    slip,
    subscription,
    token,
    turn,
    workflow,
)
from duly.store import claim as claims
from duly.store import due as due_now
from duly.store import upkeep as keeping
from duly.store.base import Backend, barrier, in_turns, read, rider
from duly.store.tally import Tally


class Store:
    """The verbs, over any backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.tally = Tally()

    async def sync(self) -> None:
        """Return when everything committed so far is power-loss durable."""
        await self.backend.sync()

    async def close(self) -> None:
        """Make everything durable and give the database back."""
        await self.backend.close()

    # Workflows
    deploy = barrier(workflow.deploy)
    keep_version = barrier(workflow.keep_version)
    decline_version = barrier(workflow.decline_version)
    set_paused = barrier(workflow.set_paused)
    run_now = barrier(workflow.run_now)
    remove = barrier(workflow.remove)
    grant = barrier(granted.grant)
    grant_lacking = barrier(granted.grant_lacking)
    choose_asks = barrier(granted.choose_asks)
    revoke = barrier(granted.revoke)
    reconnect = barrier(workflow.reconnect)
    set_secret = barrier(workflow.set_secret)
    swap_secret = barrier(workflow.swap_secret)
    drop_secret = barrier(keeping.drop_secret)
    begin_proof = barrier(proof.begin_proof)
    keep_proof_handle = barrier(proof.keep_proof_handle)
    end_proof = barrier(proof.end_proof)
    keep_token = barrier(token.keep_token)
    drop_token = barrier(token.drop_token)
    keep_proposal = barrier(proposal.keep_proposal)
    drop_proposal = barrier(proposal.drop_proposal)

    # Channels
    keep_pairing = barrier(slip.keep_pairing)
    pair_account = barrier(slip.pair_account)
    drop_pairing = barrier(slip.drop_pairing)
    write_slip = barrier(slip.write_slip)
    move_slip = barrier(slip.move_slip)
    tell_day = barrier(slip.tell_day)
    tell_begun = barrier(slip.tell_begun)

    # Hosts
    join = barrier(claims.join)
    renew = barrier(claims.renew)
    evict = barrier(claims.evict)
    leave = barrier(claims.leave)
    claim = barrier(claims.claim)
    bind = barrier(claims.bind)
    release = barrier(claims.release)
    take_up = rider(claims.take_up)
    list_hosts = read(claims.list_hosts)
    list_lacking = read(claims.list_lacking)
    list_held_runs = read(claims.list_held_runs)

    # Events
    publish = barrier(event.publish)
    skip_event = barrier(event.skip_event)
    peek = read(event.peek)
    get_by_ids = read(event.get_by_ids)

    # Runs
    take_turn = rider(turn.take_turn)
    prepare_run = rider(run.prepare_run)
    move_run = rider(run.move_run)
    stop_run = rider(run.stop_run)
    succeed_run = rider(run.succeed_run)
    commit_producer = rider(run.commit_producer)
    replan = rider(run.replan)
    commit_run = rider(run.commit_run)
    abandon_run = barrier(run.abandon_run)
    retry_run = barrier(run.retry_run)
    ask_repair = barrier(repair.ask_repair)
    decline_repair = rider(repair.decline_repair)

    # The ledger
    propose = barrier(ledger.propose)
    send = barrier(ledger.send)
    send_again = barrier(ledger.send_again)
    send_approved = barrier(ledger.send_approved)
    record = rider(ledger.record)
    record_late = barrier(ledger.record_late)
    keep_late_answer = barrier(ledger.keep_late_answer)
    keep_handle = barrier(ledger.keep_handle)
    count_attempt = rider(ledger.count_attempt)
    settle = barrier(ledger.settle)
    approve = barrier(approval.approve)
    approve_all = barrier(approval.approve_all)
    amend = barrier(approval.amend)
    reject = barrier(approval.reject)
    send_allowed = barrier(approval.send_allowed)
    revoke_allowance = barrier(approval.revoke_allowance)
    find_allowances = read(approval.find_allowances)
    list_allowances = read(approval.list_allowances)
    count_first = read(approval.count_first)
    list_sealed = read(approval.list_sealed)
    reseal = barrier(approval.reseal)
    list_ended = read(seal.list_ended)
    reseal_ended = in_turns(seal.reseal_ended)
    list_first_sends = read(sent.list_first_sends)
    note_end = rider(sent.note_end)
    find_end = read(sent.find_end)
    count_sent = read(ledger.count_sent)

    # Blobs
    begin_blob = in_turns(blob.begin_blob)
    keep_blob_part = in_turns(blob.keep_blob_part)
    finish_blob = rider(blob.finish_blob)
    use_blob = rider(blob.use_blob)
    find_blob = read(blob.find_blob)
    get_blob_part = read(blob.get_blob_part)
    oldest_blob = read(blob.oldest_blob)
    old_blobs = read(blob.old_blobs)
    leave_blob = in_turns(blob.leave_blob)
    drop_blob_parts = in_turns(blob.drop_blob_parts)

    # Language models
    ask_model = barrier(model.ask_model)
    end_question = barrier(model.end_question)
    find_answer = read(model.find_answer)
    has_asked_model = read(model.has_asked_model)

    # The bus
    emit = barrier(bus.emit)
    defer = barrier(bus.defer)
    cancel = barrier(bus.cancel)
    promote_due = in_turns(bus.promote_due)
    subscribe = barrier(subscription.subscribe)
    unsubscribe = barrier(ingress.unsubscribe)
    close_left = in_turns(subscription.close_left)
    hold_subscribers = barrier(subscription.hold_subscribers)
    recover_bus = in_turns(delivery.recover_bus)
    begin_delivery = rider(delivery.begin_delivery)
    finish_delivery = rider(delivery.finish_delivery)
    give_back_running = in_turns(delivery.give_back_running)
    discard = barrier(delivery.discard)
    retry_delivery = barrier(delivery.retry_delivery)
    resume_bus = barrier(bus.resume_bus)
    put_state = rider(bus.put_state)
    open_deliveries = read(lane.open_deliveries)
    get_state = read(bus.get_state)
    bus_held_since = read(bus.held_since)
    list_journal = read(bus.list_journal)
    list_deliveries = read(bus.list_deliveries)
    list_deferred = read(bus.list_deferred)
    list_subscriptions = read(bus.list_subscriptions)

    # Upkeep
    tidy = in_turns(keeping.tidy)
    tidied_at = read(keeping.tidied_at)
    forget = barrier(forgetting.forget)
    hand_over = barrier(carrying.hand_over)
    take_in = barrier(carrying.take_in)
    note_act = barrier(keeping.note_act)
    note_restore = barrier(keeping.note_restore)

    # What is due
    due = read(due_now.due)
    outlook = read(due_now.outlook)
    bus_outlook = read(due_now.bus_outlook)

    # What people look at
    list_workflows = read(people.list_workflows)
    find_workflow = read(people.find_workflow)
    get_workflow = read(people.get_workflow)
    list_handlers = read(people.list_handlers)
    list_topics = read(people.list_topics)
    list_versions = read(people.list_versions)
    get_version = read(people.get_version)
    list_events = read(people.list_events)
    list_causes = read(people.list_causes)
    list_effects = read(people.list_effects)
    list_strays = read(people.list_strays)
    list_inputs = read(people.list_inputs)
    list_past = read(recording.list_past)
    list_produced = read(recording.list_produced)
    list_runs = read(people.list_runs)
    get_run = read(people.get_run)
    list_mutations = read(people.list_mutations)
    get_mutation = read(people.get_mutation)
    get_held_mutation = read(people.get_held_mutation)
    list_proposals = read(people.list_proposals)
    list_waiting = read(people.list_waiting)
    list_actions = read(people.list_actions)
    list_grants = read(people.list_grants)
    list_users = read(people.list_users)
    get_secret = read(people.get_secret)
    find_proof = read(proof.find_proof)
    list_secrets = read(people.list_secrets)
