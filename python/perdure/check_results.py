"""What `perdure check` answers, typed key by key.

Always true here: it is the core's JSON itself; addresses of instructions are in hexadecimal.
"""

from __future__ import annotations

from typing import Literal, TypedDict

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

    The program has come so many instructions far, and has begun so many operations.
    """

    number: int
    instruction: Instructions
    reason: str
    operation: int | None
    instructions: Instructions
    operations: int
    place: Place | None
    stack: list[Place] | None
    in_recovery: str | None


Defect = Literal[
    "missing-flush", "flush-too-early", "missing-fence", "wrong-order", "torn", "not-recoverable"
]


class Bug(TypedDict):
    """A cause, and what it leads to."""

    id: str
    defect: Defect
    symptom: str
    symptoms: list[str]
    detail: list[str]
    lost: list[Store]
    kept: list[Store]
    point: Point
    points: int
    state: str


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


class OnMachine(TypedDict):
    """What came of power cuts of the machine itself, under the same programs."""

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
    """One state once more."""

    state: str
    lives: list[Life]
    host: Host
