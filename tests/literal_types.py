"""Plugin of mypy: no raw text reaches Markdown or a figure.

`Words` are our own: constants, numbers, and what is made of them alone. They are `Markdown` and `PlotText` at once.
An f-string has all the types that each of its parts has. What Streamlit renders as Markdown must be `Markdown`.
A constant needs no mark in a call; in a return or a field it is written ``Words("…")``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from operator import and_
from typing import Final, cast

from mypy.checker import TypeChecker
from mypy.errorcodes import ARG_TYPE
from mypy.nodes import (
    GDEF,
    AssignmentExpr,
    AssignmentStmt,
    CallExpr,
    ConditionalExpr,
    DictExpr,
    DictionaryComprehension,
    Expression,
    ForStmt,
    FuncDef,
    FuncItem,
    GeneratorExpr,
    IndexExpr,
    LambdaExpr,
    ListComprehension,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    OpExpr,
    RefExpr,
    SetExpr,
    SliceExpr,
    StarExpr,
    StrExpr,
    TupleExpr,
    TypeInfo,
    Var,
)
from mypy.plugin import FunctionContext, FunctionSigContext, MethodContext, MethodSigContext, Plugin
from mypy.plugins.default import typed_dict_get_callback
from mypy.types import (
    CallableType,
    FunctionLike,
    Instance,
    LiteralType,
    NoneType,
    TupleType,
    Type,
    TypedDictType,
    TypeVarType,
    UninhabitedType,
    UnionType,
    get_proper_type,
)

_MARKDOWN, _PLOT = 1, 2
_OWN: Final = _MARKDOWN | _PLOT
_HOME: Final = "dashboard.wording."
_KINDS: Final = {f"{_HOME}Words": _OWN, f"{_HOME}Markdown": _MARKDOWN, f"{_HOME}PlotText": _PLOT}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_PHRASE: Final = "dashboard.sentences.Phrase"
_NUMBERS: Final = ("builtins.int", "builtins.float", "decimal.Decimal", "datetime.date")
_RENDERED: Final = frozenset({"label", "body", "help", "text", "title", "tabs", "captions", "delta", "value"})
"""Streamlit's parameters that it renders as Markdown."""
_OPTIONS: Final = frozenset({"segmented_control", "pills", "radio", "select_slider"})
"""Its widgets that render their options as Markdown, too."""
_AS_WRITTEN: Final = frozenset({"text", "code", "html", "json", "write_stream"})
"""Its calls that show a text character by character."""
_VALUED: Final = frozenset({"metric"})
"""Its calls whose ``value`` is shown; elsewhere it is what a field holds."""
_OF_STR: Final = frozenset(
    """
    __add__ __getitem__ __mul__ capitalize center expandtabs ljust lower lstrip removeprefix removesuffix
    replace rjust rstrip split strip title upper
    """.split()  # noqa: SIM905 - one word per line is a page
)
"""Methods of a text that make no other characters than it and their arguments have."""
_CHILDREN: Final = """
    defs body else_body func bodies handlers finally_body patterns guards subject expr rvalue index sequences
    condlists left_expr generator callee args left right operands items base if_expr cond else_expr value key
""".split()  # noqa: SIM905 - one word per line is a page
"""Attributes of mypy's nodes that hold other nodes."""
_OWN_OF_CORE: Final = frozenset(
    f"core.explained.{name}"
    for name in (
        "arm.chance_of",
        "arm.chance_words",
        "arm.limits_words",
        "arm.measured",
        "arm.missing_noun",
        "arm.picked",
        "arm.of_hundred",
        "arm.used_in",
        "machine.server",
        "experiments.effect",
        "experiments.measure",
        "experiments.sides",
        "experiments.word",
        "experiments.words",
        "trials.change",
        "trials.effect",
        "trials.effects",
        "trials.words",
    )
)
"""Functions of core whose answers are numbers and our own words."""
_PUTTING: Final = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
"""Methods that put something into a list, set or dictionary."""
_PARTS: Final = {"items": (0, 1), "keys": (0,), "values": (1,)}
_LOOKING_UP: Final = frozenset(
    f"{home}.{name}" for home in ("builtins.dict", "typing.Mapping") for name in ("__getitem__", "get")
)

_looked_at: Final[set[Var]] = set()
"""Names whose values are being looked at: one that is made of itself adds nothing."""


class LiteralTypes(Plugin):
    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        return [(10, "dashboard.wording", -1)] if _is_checked(file.fullname) else []

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        home, _, name = fullname.rpartition(".")
        if home == "builtins.str" or home in _KINDS:
            return _joined if name in {"join", "format"} else _made if name in _OF_STR else None
        if fullname in _LOOKING_UP:
            return _looked_up
        return _with_options if _renders_options(fullname) else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname in _KINDS:
            return _declared
        if fullname == "builtins.str":
            return _written
        if fullname in _OWN_OF_CORE:
            return lambda call: _made_of(call, _OWN)
        return _with_options if _renders_options(fullname) else None

    def get_function_signature_hook(
        self, fullname: str
    ) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return _expecting(fullname)

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        return _expecting(fullname)


def plugin(_version: str) -> type[Plugin]:
    """Return the plugin, as mypy asks for it."""
    return LiteralTypes


# Calls


def _expecting(fullname: str) -> Callable[[FunctionSigContext | MethodSigContext], FunctionLike] | None:
    package, _, rest = fullname.partition(".")
    name = rest.rpartition(".")[2]
    if package == "streamlit":
        return None if name in _AS_WRITTEN else lambda call: _loosened(call, _of_streamlit(call, name))
    if package == "dashboard" and fullname not in _KINDS:
        return lambda call: _loosened(call, call.default_signature)
    return None


def _of_streamlit(call: FunctionSigContext | MethodSigContext, name: str) -> CallableType:
    """Return a signature of Streamlit's in which rendered text is `Markdown`."""
    signature, markdown = call.default_signature, _typed(call.api, _MARKDOWN)
    if markdown is None:
        return signature
    given = zip(signature.arg_names, signature.arg_types, strict=True)
    types = [
        _replaced(of, markdown) if named in _RENDERED and (named != "value" or name in _VALUED) else of
        for named, of in given
    ]
    return signature.copy_modified(arg_types=types)


def _replaced(given: Type, markdown: Instance) -> Type:
    proper = get_proper_type(given)
    if isinstance(proper, UnionType):
        return UnionType.make_union([_replaced(one, markdown) for one in proper.items])
    if isinstance(proper, Instance) and proper.type.fullname == "typing.Sequence":
        return proper.copy_modified(args=[markdown])
    return proper if _kind_of(proper) == _OWN else markdown


def _loosened(call: FunctionSigContext | MethodSigContext, signature: CallableType) -> CallableType:
    """Let a parameter of one of the three types take constants, and what is made of them."""
    checker = _checker(call.api)
    if not _is_checked(checker.tree.fullname):
        return signature
    anything = checker.named_type("builtins.object")
    types = [
        anything if (needed := _needed(of)) and given and _are(checker, given, needed) else of
        for of, given in zip(signature.arg_types, call.args, strict=True)
    ]
    return signature.copy_modified(arg_types=types)


def _are(checker: TypeChecker, given: Iterable[Expression], needed: int) -> bool:
    return all(
        _kind(checker, one) & needed == needed or _is_no_text(_type_of(checker, one), needed) for one in given
    )


def _is_no_text(given: Type, needed: int) -> bool:
    """Return whether a value is another thing than a text, or holds no other texts: its own type is checked."""
    proper = get_proper_type(given)
    match proper:
        case UnionType() | TupleType():
            return all(_is_no_text(one, needed) for one in proper.items)
        case Instance():
            inner = all(_is_no_text(one, needed) for one in proper.args)
            return inner and (not proper.type.has_base("builtins.str") or _kind_of(proper) & needed == needed)
    return False


def _needed(expected: Type, depth: int = 3) -> int:
    """Return the kind that a parameter takes, alone or in a sequence or union."""
    proper = get_proper_type(expected)
    if isinstance(proper, Instance) and proper.type.fullname in _KINDS:
        return _KINDS[proper.type.fullname]
    inner = proper.items if isinstance(proper, UnionType | TupleType) else getattr(proper, "args", ())
    return max((_needed(one, depth - 1) for one in inner), default=0) if depth else 0


def _renders_options(fullname: str) -> bool:
    return fullname.startswith("streamlit.") and fullname.rpartition(".")[2] in _OPTIONS


def _with_options(call: FunctionContext | MethodContext) -> Type:
    """Check the texts of a widget's options."""
    checker, names = _checker(call.api), call.callee_arg_names
    shown = {name: at for at, name in enumerate(names)}
    for name in ("format_func", "options"):
        given = call.args[shown[name]]
        if given:
            of = get_proper_type(call.arg_types[shown[name]][0])
            kind = _kind_of(of.ret_type) if isinstance(of, CallableType) else _elements(checker, given[0], of)
            method = given[0] if isinstance(given[0], MemberExpr) else None
            if (
                method is not None
                and isinstance(method.expr, RefExpr)
                and method.expr.fullname == "builtins.str"
            ):  # of an option itself
                continue
            if method is not None and method.name == "__getitem__":
                kind = _part(checker, method.expr, 1)
            if not kind & _MARKDOWN:
                checker.fail(
                    f"Streamlit renders the {name} as Markdown: make them literal", given[0], code=ARG_TYPE
                )
            break
    return call.default_return_type


# What is made


def _joined(call: MethodContext) -> Type:
    """Return the type of an f-string, of ``", ".join(…)`` or of ``"…".format(…)``."""
    checker, receiver = _checker(call.api), get_proper_type(call.type)
    kind = _kind_of(receiver)
    joins = isinstance(call.context, CallExpr) and getattr(call.context.callee, "name", "") == "join"
    for one, of in _arguments(call):
        kind &= _elements(checker, one, of) if joins else _kind(checker, one)
    literal = receiver.last_known_value if isinstance(receiver, Instance) else None
    is_quoted = literal is not None and str(literal.value).startswith("{!")
    return _made_of(call, 0 if is_quoted and kind != _OWN else kind)


def _made(call: MethodContext) -> Type:
    """Return the type of what a method makes of a text: only our own words stay what they are in parts."""
    kind = _kind_of(call.type)
    for one, _ in _arguments(call):
        kind &= _kind(_checker(call.api), one)
    whole = (
        isinstance(call.context, OpExpr)
        or getattr(getattr(call.context, "callee", None), "name", "") == "strip"
    )
    made = _made_of(call, kind if kind == _OWN or whole else 0)
    is_list = (
        getattr(getattr(call.context, "callee", None), "name", "") == "split"
        and made is not call.default_return_type
    )
    return _checker(call.api).named_generic_type("builtins.list", [made]) if is_list else made


def _looked_up(call: MethodContext) -> Type:
    """Return what a constant of a module holds: it was made before any text came."""
    if isinstance(get_proper_type(call.type), TypedDictType):
        return typed_dict_get_callback(call)
    checker, own = _checker(call.api), _typed(call.api, _OWN)
    where = call.context.callee if isinstance(call.context, CallExpr) else call.context
    held = (
        where.expr if isinstance(where, MemberExpr) else where.base if isinstance(where, IndexExpr) else None
    )
    defaults = [one for one, _ in _arguments(call)][1:]
    if own is None or held is None or _part(checker, held, 1) != _OWN or not _are(checker, defaults, _OWN):
        return call.default_return_type
    return _owned(call.default_return_type, own)


def _owned(given: Type, own: Instance) -> Type:
    proper = get_proper_type(given)
    if isinstance(proper, UnionType):
        return UnionType.make_union([_owned(one, own) for one in proper.items])
    if isinstance(proper, TupleType):
        return proper.copy_modified(items=[_owned(one, own) for one in proper.items])
    return own if isinstance(proper, Instance) and proper.type.fullname == "builtins.str" else given


def _declared(call: FunctionContext) -> Type:
    """Check ``Words("…")`` and its like: nothing becomes literal by being called so."""
    kind = _kind_of(call.default_return_type)
    checker = _checker(call.api)
    if not _are(checker, (one for one, _ in _arguments(call)), kind):
        checker.fail("This text may be foreign: make it literal instead", call.context, code=ARG_TYPE)
    return call.default_return_type


def _written(call: FunctionContext) -> Type:
    """Return the type of ``str(number)``."""
    kind = _OWN if call.args and call.args[0] else 0
    for one, _ in _arguments(call):
        kind &= _kind(_checker(call.api), one)
    return _made_of(call, kind)


def _made_of(call: FunctionContext | MethodContext, kind: int) -> Type:
    return (_typed(call.api, kind) if kind else None) or call.default_return_type


def _arguments(call: FunctionContext | MethodContext) -> Iterator[tuple[Expression, Type]]:
    for exprs, types in zip(call.args, call.arg_types, strict=True):
        yield from zip(exprs, types, strict=True)


# Kinds


def _kind(checker: TypeChecker, one: Expression) -> int:  # noqa: PLR0911 - one a shape
    """Return where the value of an expression can be shown as it is."""
    match one:
        case StrExpr() | SliceExpr():
            return _OWN
        case ConditionalExpr():
            return _kind(checker, one.if_expr) & _kind(checker, one.else_expr)
        case OpExpr(op="or" | "and"):
            return _kind(checker, one.left) & _kind(checker, one.right)
        case ListExpr() | TupleExpr() | SetExpr():
            return _all(_kind(checker, item) for item in one.items)
        case DictExpr():
            return _all(_kind(checker, part) for pair in one.items for part in pair if part is not None)
        case GeneratorExpr():
            return _kind(checker, one.left_expr)
        case CallExpr(callee=RefExpr(fullname="types.MappingProxyType" | "builtins.list" | "builtins.tuple")):
            return _kind(checker, one.args[0])
        case ListComprehension():
            return _kind(checker, one.generator)
        case StarExpr():
            of = None if isinstance(one.expr, CallExpr) else _type_of(checker, one.expr)
            return _elements(checker, one.expr, of or checker.lookup_type_or_none(one.expr))
    kind = _kind_of(_type_of(checker, one))
    if kind or not isinstance(one, NameExpr) or not isinstance(one.node, Var):
        return kind
    return _kind_of_variable(checker, one.node)


def _elements(checker: TypeChecker, one: Expression, of: Type | None) -> int:
    """Return the kind of a list's elements."""
    if isinstance(one, CallExpr) and isinstance(one.callee, MemberExpr) and one.callee.name in _PARTS:
        return _all(_part(checker, one.callee.expr, at) for at in _PARTS[one.callee.name])
    if _is_constant(one):
        return _OWN
    proper = get_proper_type(of)
    kind = 0
    if isinstance(proper, TupleType):
        kind = _all(map(_kind_of, proper.items))
    elif isinstance(proper, Instance) and proper.args:
        kind = _kind_of(proper.args[0])
    return kind or (_kind(checker, one) if not isinstance(one, CallExpr) else 0)


def _part(checker: TypeChecker, held: Expression, at: int) -> int:
    """Return the kind of a dictionary's keys (0) or values (1)."""
    if isinstance(held, DictExpr):
        return _all(
            0 if pair[at] is None else _kind(checker, cast("Expression", pair[at])) for pair in held.items
        )
    if isinstance(held, NameExpr) and isinstance(held.node, Var) and not held.node.is_final:
        return _kind_of_variable(checker, held.node, at)
    of = get_proper_type(_type_of(checker, held)) if isinstance(held, RefExpr) else None
    kind = _kind_of(of.args[at]) if isinstance(of, Instance) and len(of.args) > at else 0
    return _OWN if _is_constant(held) else kind


def _is_constant(one: Expression) -> bool:
    """Return whether this is a constant of a module: it was made before any text came."""
    return isinstance(one, RefExpr) and isinstance(one.node, Var) and one.node.is_final and one.kind == GDEF


def _type_of(checker: TypeChecker, one: Expression) -> Type:
    known = checker.lookup_type_or_none(one)
    if known is not None:
        return known
    with checker.msg.filter_errors():
        return checker.get_expression_type(one)


def _kind_of_variable(checker: TypeChecker, var: Var, at: int | None = None) -> int:
    """Return the kind of a local name from all that is assigned to it, or put into it as key or value."""
    if var in _looked_at:
        return _OWN
    given = _assigned(checker, var)
    if not given or None in given:
        return 0
    _looked_at.add(var)
    try:
        return _all(
            _kind(checker, one) if at is None or not isinstance(one, DictExpr) else _part(checker, one, at)
            for one in given
            if one is not None
        )
    finally:
        _looked_at.remove(var)


def _assigned(checker: TypeChecker, var: Var) -> list[Expression | None] | None:
    """Return all that is assigned to a name; of a generic function mypy checks copies."""
    roots = [_assignments(one) for one in checker.scope.stack if isinstance(one, MypyFile | FuncItem)]
    return next((found[var] for found in roots if var in found), None)


def _all(kinds: Iterable[int]) -> int:
    return reduce(and_, kinds, _OWN)


def _kind_of(given: Type | None) -> int:  # noqa: PLR0911 - one a shape
    proper = get_proper_type(given)
    match proper:
        case UnionType():
            return _all(map(_kind_of, proper.items))
        case LiteralType() | NoneType() | UninhabitedType():
            return _OWN
        case TypeVarType():
            return _all(map(_kind_of, proper.values or [proper.upper_bound]))
        case Instance():
            if proper.last_known_value is not None or proper.type.is_enum:
                return _OWN
            if proper.type.fullname == _PHRASE:
                return _MARKDOWN
            for base in proper.type.mro:
                if base.fullname in _KINDS:
                    return _KINDS[base.fullname]
                if base.fullname in _NUMBERS or base.fullname.startswith("numpy."):
                    return _OWN
    return 0


def _typed(api: object, kind: int) -> Instance | None:
    checker = _checker(api)
    wording = checker.modules.get(_HOME[:-1])
    symbol = wording.names.get(_NAMES[kind].rpartition(".")[2]) if wording is not None else None
    return (
        Instance(symbol.node, [])
        if symbol and isinstance(symbol.node, TypeInfo) and _is_checked(checker.tree.fullname)
        else None
    )


def _checker(api: object) -> TypeChecker:
    return cast("TypeChecker", api)


def _is_checked(module: str) -> bool:
    return f"{module}.".startswith(("dashboard.", "tests.dashboard."))


@lru_cache(maxsize=64)
def _assignments(tree: MypyFile | FuncItem) -> dict[Var, list[Expression | None]]:
    """Return all that a module assigns to its names, or puts into its lists; None where it is no expression."""
    found: dict[Var, list[Expression | None]] = defaultdict(list)
    for node in _nodes(tree):
        match node:
            case AssignmentStmt():
                for target in node.lvalues:
                    _assign(found, target, node.rvalue)
            case OperatorAssignmentStmt():
                _assign(found, node.lvalue, node.rvalue)
            case AssignmentExpr():
                _assign(found, node.target, node.value)
            case ForStmt():
                _assign_each(found, node.index, node.expr)
            case GeneratorExpr() | DictionaryComprehension():
                for index, sequence in zip(node.indices, node.sequences, strict=True):
                    _assign_each(found, index, sequence)
            case FuncDef() | LambdaExpr():
                for argument in node.arguments:
                    found[argument.variable].append(None)
            case CallExpr(callee=MemberExpr(name=name) as method) if name in _PUTTING:
                for given in node.args:
                    _assign(found, method.expr, given)
    return found


def _assign_each(found: dict[Var, list[Expression | None]], target: Expression, sequence: Expression) -> None:
    callee = sequence.callee if isinstance(sequence, CallExpr) else None
    if isinstance(callee, MemberExpr) and callee.name == "items" and isinstance(target, TupleExpr):
        for part, one in zip(("keys", "values"), target.items, strict=True):
            _assign(found, one, StarExpr(CallExpr(MemberExpr(callee.expr, part), [], [], [])))
        return
    for one in sequence.items if isinstance(sequence, TupleExpr | ListExpr) else [StarExpr(sequence)]:
        _assign(found, target, one)


def _assign(found: dict[Var, list[Expression | None]], target: Expression, value: Expression | None) -> None:
    if isinstance(value, ConditionalExpr):
        _assign(found, target, value.if_expr)
        _assign(found, target, value.else_expr)
    elif isinstance(target, NameExpr) and isinstance(target.node, Var):
        found[target.node].append(value)
    elif isinstance(target, IndexExpr):
        _assign(found, target.base, value)
    elif isinstance(target, TupleExpr):
        parts = (
            value.items if isinstance(value, TupleExpr) and len(value.items) == len(target.items) else None
        )
        for at, one in enumerate(target.items):
            _assign(found, one, value if parts is None else parts[at])


def _nodes(node: object) -> Iterator[Node]:
    if isinstance(node, list | tuple):
        for one in node:
            yield from _nodes(one)
    elif isinstance(node, Node):
        yield node
        for name in _CHILDREN:
            yield from _nodes(getattr(node, name, ()))
