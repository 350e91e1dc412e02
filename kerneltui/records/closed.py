"""What may be one of a few words only."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The finding on a candidate."""

    COMPILE_ERROR = "compile_error"  # the compiler refused it
    LAUNCH_ERROR = "launch_error"  # it did not load, or crashed, or a launch was refused
    MISMATCH = "mismatch"  # its outputs are wrong, unwritten, or it wrote elsewhere
    TIMEOUT = "timeout"  # it did not end within its deadline
    OUT_OF_MEMORY = "out_of_memory"  # it asked for more memory than there is
    SUSPECT = "suspect"  # a cheat, refused by policy, or a timing that cannot be believed
    CORRECT = "correct"  # verified, and timed where timing was asked for
    NOT_RUN = "not_run"  # compiled where no device can run it


class Stage(StrEnum):
    """Where on its way a candidate was when the verdict fell."""

    POLICY = "policy"  # static checks on source and binary
    COMPILE = "compile"
    LOAD = "load"  # opening the library, finding the function
    LAUNCH = "launch"
    CHECK = "check"  # comparison with the reference
    TIME = "time"
    DONE = "done"  # nothing is left to do


class Language(StrEnum):
    """What a candidate is written in."""

    CUDA = "cuda"  # CUDA C++ behind the contract
    CPP = "cpp"  # C++ for the host, behind the contract
    PYTHON = "python"  # a module candidate: a file with `ModelNew`


class IdeaStatus(StrEnum):
    """What is to become of an idea."""

    PROPOSED = "proposed"  # waits for a person (review = true)
    APPROVED = "approved"  # variants are written from it
    REJECTED = "rejected"  # a person said no before any code was written
    PRUNED = "pruned"  # a person cut it off, with all below it
    MERGED = "merged"  # said before by another idea; `merged_into` names it


class VariantKind(StrEnum):
    """How a variant came to be."""

    STARTER = "starter"  # shipped with the problem
    ATTEMPT = "attempt"  # written from an idea
    REPAIR = "repair"  # a failed variant, written again with its log
    SWEEP = "sweep"  # the same source under other tunables
    HAND = "hand"  # a person's


class VariantState(StrEnum):
    """How far a variant is."""

    WAITING = "waiting"  # to be written
    WRITING = "writing"  # an author is at it
    WRITTEN = "written"  # has a candidate, nothing done yet
    COMPILING = "compiling"
    QUEUED = "queued"  # built, waits for a device
    RUNNING = "running"  # on a device
    DONE = "done"  # has a verdict, or `author_error` says why it has no candidate
    CANCELLED = "cancelled"  # pruned before it was finished


class DecisionKind(StrEnum):
    """An act of a person."""

    APPROVE = "approve"
    REJECT = "reject"
    MOVE = "move"  # a proposed idea among those of its round; payload: before (an idea; "" is the end)
    PRUNE = "prune"
    RESTORE = "restore"  # payload: proposed (true: an idea is to be decided on again)
    EDIT = "edit"  # an idea's text; payload: title, text
    ADD_IDEA = "add_idea"  # payload: title, text, parent
    INJECT = "inject"  # payload: source, language, name, parent
    ANSWER = "answer"  # a pasted answer to a prompt; payload: text
    PIN = "pin"
    UNPIN = "unpin"
    RETRY = "retry"
    NOTE = "note"  # payload: text
    EXPAND = "expand"  # write more variants of one idea; payload: count
    CERTIFY = "certify"
    PROFILE = "profile"  # count what it does; payload: profile, where a command has counted it already
    PAUSE = "pause"
    RESUME = "resume"
    BUDGET = "budget"  # payload: any field of Budget, or rounds
    STOP = "stop"  # payload: drain (true: once what runs is finished)


class DecisionState(StrEnum):
    """Whether the engine has carried a decision out."""

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"  # `answer` says why


class SessionState(StrEnum):
    """What the engine says of itself."""

    NEW = "new"  # never run
    RUNNING = "running"
    PAUSED = "paused"  # by a person, or because it cannot go on; `reason` says which
    FINISHED = "finished"  # `reason` says on what
    STOPPED = "stopped"  # by a person


class CallState(StrEnum):
    """What became of a question to an author."""

    RESERVED = "reserved"  # about to be sent; the worst case is reserved in the budget
    DONE = "done"
    FAILED = "failed"  # `error` says how; what it cost is counted


class CheckResult(StrEnum):
    """The finding of one check."""

    PASS = "pass"
    FAIL = "fail"
    NOTE = "note"  # worth knowing, decides nothing
    SKIPPED = "skipped"  # could not be made here; the detail says why


class Badge(StrEnum):
    """How far a number can be trusted."""

    CERTIFIED = "certified"  # measured again in a fresh process, sanitizers passed
    MEASURED = "measured"  # paired, verified, undisturbed
    UNTRUSTED = "untrusted"  # too disturbed for a ratio
    SUSPECT = "suspect"
