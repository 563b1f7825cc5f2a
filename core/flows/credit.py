"""Credit: an episode's reward, shared among the arms of its runs on request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, assert_never

from msgspec import Meta
from msgspec.structs import replace

from core.errors import NotApplicable, NotFound
from core.flows.context import Context
from core.maths.credit import credited, credited_by_payments
from core.maths.episodes import totals_of, written
from core.records.episode import Episode, Scale
from core.records.episode_credit import CREDIT_RULES, CreditAnswer, CreditRule, CreditShare
from core.records.limits import one_of, shown
from core.records.observation import counted_in
from core.store.episode_credits import Prompted, RunArm, add_credit, credit_of, prompted
from core.store.episodes import find_episode
from core.store.ledger import epochs_of_credit
from core.store.reads.runs import blind_runs
from core.store.transaction import Facts, Transaction

_NO_SHARES: Final[Mapping[CreditRule, str]] = {
    "equal": "No arm was in the prompts of its runs.",
    "referenced": "No arm in the prompts of its runs was referenced.",
    "step": "No step that was paid other than 0 called a tool in the prompts of its runs.",
}


class CreditSplit(NamedTuple):
    """Reward of an episode by the active scale, and its shares. ``why`` is the reason if there are none."""

    reward: float | None
    shares: tuple[tuple[Prompted, int], ...] = ()
    why: str | None = None

    def credit_shares(self, blind: Collection[int] = ()) -> tuple[CreditShare, ...]:
        """Return the shares as records, without those in ``blind`` runs."""
        return tuple(
            CreditShare(run=one.run, arm=one.arm, weight_micro=weight)
            for one, weight in self.shares
            if one.run_no not in blind
        )


def credit_episode(
    context: Context,
    uid: Annotated[str, Meta(description="The episode's uid.")],
    rule: Annotated[CreditRule, Meta(description="Which arms share the credit.")],
) -> CreditAnswer:
    """Credit the result of an episode to arms of its runs.

    The credit is one observation in total, and `undo` reverts it. An episode has one active credit: another one
    supersedes it in the same act, and ``off`` removes it. Later steps or scales do not change a credit.

    ``rule`` chooses the arms. ``equal``: all arms in the prompts of its runs share it; ``referenced``: the referenced
    arms share it; ``step``: the tools of the paid steps share it, by the size of each payment; ``off``: no arm gets
    it.

    Raises `NotFound` without an active episode, and `NotApplicable` for a base outside the environment's scale.
    """
    one_of("A credit's rule", rule, CREDIT_RULES)
    return context.write("credit", lambda txn: credit_in(txn, uid, rule))


def credit_in(txn: Transaction, uid: str, rule: CreditRule) -> CreditAnswer:
    """Credit an episode inside an open transaction, like `credit_episode`."""
    line, declared = active_episode(txn, uid)
    scale = declared or Scale()
    before = credit_of(txn, uid)
    split = split_of(txn, line, scale, rule)
    shares, visible = split.credit_shares(), split.credit_shares(blind_runs(txn, txn.actor.name))
    answer = CreditAnswer(id=None, episode=uid, rule=rule, reward=split.reward, shares=visible, why=split.why)
    if before is not None and (before.rule, before.reward, before.shares) == (rule, split.reward, shares):
        counted = counted_in(epochs_of_credit(txn, before.number).values())
        return replace(answer, id=f"credit-{before.number}", repeated=True, counted_in=counted)
    if rule == "off" and before is None:
        return replace(answer, why="No credit of it is in force, so there is none to take away.")
    if rule != "off" and not shares:
        return answer
    number = add_credit(
        txn,
        txn.own,
        uid,
        rule,
        reward=split.reward,
        shares=[(one.key, weight) for one, weight in split.shares],
    )
    act = f"credit-{number}"
    detail = {"episode": uid, "rule": rule, "reward": split.reward, "arms": len(shares)}
    txn.audit("credit", act, detail)
    replaces = None if before is None else f"credit-{before.number}"
    counted = counted_in(epochs_of_credit(txn, number).values())
    return replace(answer, id=act, replaces=replaces, counted_in=counted)


def active_episode(facts: Facts, uid: str) -> tuple[Episode, Scale | None]:
    """Return an active episode and the declared scale of its environment; raise `NotFound`."""
    episode = find_episode(facts, uid)
    if episode is None:
        raise NotFound(
            f"There is no episode {shown(uid)} in learner {facts.name!r}.",
            next_step="Use the uid that its recording names; armscope export writes them all.",
        )
    return episode


def split_of(facts: Facts, line: Episode, scale: Scale, rule: CreditRule) -> CreditSplit:
    """Return the present reward of an episode and its shares by a rule; raise `NotApplicable` outside its scale."""
    if rule == "off":
        return CreditSplit(None)
    reached = totals_of(line.steps, broken=line.broken).base(scale)
    if reached is None:
        if scale.base == "none":
            return CreditSplit(None, why="Its environment is left out of averages and credit.")
        what = "any step" if scale.base == "total" else "its last step"
        return CreditSplit(None, why=f"Nothing was paid for {what}, so there is nothing to credit.")
    if not written(scale.lo) <= reached <= written(scale.hi):
        raise NotApplicable(
            f"The {scale.base} of an episode that is credited must be within {scale.lo:g} to {scale.hi:g}, got "
            f"{float(reached):g} (episode {shown(line.uid)}).",
            next_step=f"Declare the scale that {shown(line.environment)} pays on; nothing was credited.",
        )
    reward = scale.normalised(float(reached))
    arms = prompted(facts, line.uid)
    if not arms:
        return CreditSplit(
            reward, why="None of its runs is here with arms in its prompt, so no arm can be credited."
        )
    weights = _weights(line, arms, rule)
    arm_by_key = {one.key: one for one in arms}
    shares = tuple((arm_by_key[key], weight) for key, weight in sorted(weights.items()))
    return CreditSplit(reward, shares, None if shares else _NO_SHARES.get(rule))


def _weights(line: Episode, arms: Sequence[Prompted], rule: CreditRule) -> dict[RunArm, int]:
    match rule:
        case "off":
            return {}
        case "equal":
            return credited([one.key for one in arms])
        case "referenced":
            return credited([one.key for one in arms if one.referenced])
        case "step":
            tools = _tools(arms)
            return credited_by_payments(
                (written(step.reward), tools.get(step.name, ()))
                for step in line.steps
                if step.reward is not None and not step.refused
            )
        case _:
            assert_never(rule)


def _tools(arms: Sequence[Prompted]) -> dict[str, list[RunArm]]:
    """Return the tools in the prompts by name: in the runs that referenced them, or else in all runs with them."""
    named: dict[str, list[Prompted]] = defaultdict(list)
    for one in arms:
        kind, _, name = one.arm.split(":", 2)
        if kind == "tool":
            named[name].append(one)
    return {
        name: [one.key for one in arms_of_name if one.referenced] or [one.key for one in arms_of_name]
        for name, arms_of_name in named.items()
    }
