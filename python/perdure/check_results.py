"""What `perdure check` answers, typed key by key.

Always true here: it is the core's JSON itself; addresses of instructions are in hexadecimal.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from perdure.fields import Bytes, Cycles, Instructions, Seconds


class Place(TypedDict):
    """Where an instruction comes from, as far as symbols and debug information say."""

    pc: str
    function: str | None
    file: str | None
    line: int | None


class Word(TypedDict):
    """Eight bytes of a line: as the recovery found them, and as they were stored last.

    Where a store was kept, recovery found the newest ones, and `found` is what it would have found
    without the store; unless another one to the same line was lost.
    `part` is the member of a structure, where a pointer of the program leads to one there.
    """

    offset: Bytes
    part: str | None
    found: str
    newest: str


class Store(TypedDict):
    """A store that was lost or kept, made after so many instructions of its life.

    `behind` is its thread's last store to the line before the next fence, behind which a flush
    belongs; `durable_at` is what makes it durable in the uncut run.
    """

    place: Place | None
    stack: list[Place] | None
    by_kernel: bool
    instruction: Instructions
    pool: str | None
    offset: Bytes | None
    bytes: Bytes
    stores_lost: int
    behind: Place | None
    durable_at: Place | None
    words: list[Word]


class Point(TypedDict):
    """When power fails: before that instruction of what runs then, be it the program or a recovery.

    The program has come so many instructions far, and has begun so many operations. Of a cut of
    the machine, `instruction` says what came first, as in stores, and is no number of instructions.
    """

    number: int
    instruction: Instructions
    reason: str
    operation: int | None
    instructions: Instructions | None
    operations: int
    place: Place | None
    stack: list[Place] | None
    in_recovery: str | None


class Moment(TypedDict):
    """A moment of a bug: a store, a flush of a line, a fence, what belongs there, or power fails.

    `stores` are numbers among all that were lost and kept, in this order, that it is about. `by` is
    the instruction, if it is known; `waits` says that what comes behind waits until flushes are
    done. A moment with `times` stands for so many that are not told. `caller` is who called there.
    """

    kind: Literal[
        "lost",
        "kept",
        "flush",
        "fence",
        "missing-flush",
        "missing-fence",
        "missing-order",
        "missing-flush-and-fence",
        "power",
    ]
    instruction: Instructions
    thread: int
    place: Place | None
    caller: Place | None
    by: str | None
    waits: bool | None
    times: int | None
    stores: list[int]
    pool: str | None
    offset: Bytes | None


Schedule = Literal["near-events", "in-flight", "random"]
"""Of cuts: near a write at the media, behind a store that is not waited for yet, at any time."""

Defect = Literal[
    "missing-flush", "flush-too-early", "missing-fence", "wrong-order", "torn", "not-recoverable"
]


class Cut(TypedDict):
    """The cut of the machine that a bug was found by: when, and of which machine.

    `cycle_in_recovery` is there where power failed again: when, in the life of what recovered.
    """

    cycle: Cycles
    cycle_in_recovery: Cycles | None
    set: list[str]
    schedule: Schedule


class Sought(TypedDict):
    """In how many cuts near a bug's point the machine was in its state, and recovery failed."""

    cuts: int
    seen: int


class Bug(TypedDict):
    """A cause, and what it leads to.

    `cut` is there under the model `machine`, `on_machine` where the state of a bug of another
    model was sought by cuts.
    """

    id: str
    defect: Defect
    symptom: str
    symptoms: list[str]
    detail: list[str]
    lost: list[Store]
    kept: list[Store]
    point: Point
    timeline: list[Moment]
    points: int
    state: str
    token: str
    cut: Cut | None
    on_machine: Sought | None


class Wasted(TypedDict):
    """What is done for nothing, where and how often."""

    what: Literal[
        "flush-of-clean-line",
        "flushed-twice",
        "fence-without-work",
        "never-durable",
        "never-read",
    ]
    count: int
    """Times; bytes of what is never read."""
    cycles: Cycles | None
    place: Place | None
    stack: list[Place] | None


class Costs(TypedDict):
    """What the program takes on the machine, and its flushes and fences of it."""

    domain: Literal["media", "adr", "eadr"]
    cycles: Cycles
    flushes: int
    flush_cycles: Cycles
    fences: int
    fence_cycles: Cycles


class Uncut(TypedDict):
    """The run that nobody cut."""

    instructions: Instructions
    stores: int
    flushes: int
    fences: int
    operations: int
    schedules: int
    costs: Costs | None


class Points(TypedDict):
    """Failure points.

    Where operations overlapped, what was shown was compared with what their orders show
    (`by_orders`), or with nothing (`not_compared`).
    """

    found: int
    call_stacks: int
    explored: int
    exhaustively: int
    in_recoveries: int
    by_orders: int
    not_compared: int


class States(TypedDict):
    """Recoveries that differ in what they read."""

    run: int
    wrong: int
    instructions: Instructions
    coverage: float


class CutsWithin(TypedDict):
    """Cuts of recoveries."""

    cuts: int
    failed: int


class Round(TypedDict):
    """Cuts of one machine, which has these overrides, at moments of one schedule.

    `in_recoveries` are those in which power failed again while it recovered.
    """

    number: int
    set: list[str]
    schedule: Schedule
    cuts: int
    failed: int
    in_recoveries: CutsWithin


class OnMachine(TypedDict):
    """What came of cuts of the machine as it is, beside a model; tokens of those that failed."""

    machine: str
    cuts: int
    failed: int
    tokens: list[str]


class Host(TypedDict):
    """What it took here."""

    seconds: Seconds


class Check(TypedDict):
    """The whole answer."""

    program: list[str]
    model: str
    machine: str
    seed: int
    uncut: Uncut
    points: Points
    states: States
    bugs: list[Bug]
    unexplained: int
    waste: list[Wasted]
    machines: list[Round]
    notices: list[str]
    limited: bool
    interrupted: bool
    on_machine: OnMachine | None
    host: Host


class Life(TypedDict):
    """How a program ended that was started on a state, and the last lines that it wrote."""

    program: str
    end: str
    output: str
    error: str


class Again(TypedDict):
    """One state once more: how recovery ends, and what is wrong with that, if anything is.

    `request` is the run of what recovers, on the pools of the folder that was asked for.
    """

    state: str
    lives: list[Life]
    wrong: str | None
    detail: list[str]
    request: dict[str, Any] | None
    host: Host
