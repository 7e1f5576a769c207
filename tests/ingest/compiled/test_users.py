"""Layer and component of what a compiler adds, against what its users and its operands are named."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

from tests.ingest.build import ModuleBuilder, shape, tuple_shape
from xlahouse.ingest.compiled.schedule import places
from xlahouse.ingest.compiled.users import scopes_by_use
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.shapes import logical_bytes

COMPILED = Path(__file__).parents[2] / "cases" / "compiled"
X, PAIR = shape("f32", 16), tuple_shape(shape("f32", 16), shape("f32", 16))
MLP_2 = "model.layers.2.5/model.layers.2.mlp.4/aten__mm"
MLP_3 = "model.layers.3.6/model.layers.3.mlp.4/aten__mm"
ATTENTION_3 = "model.layers.3.6/model.layers.3.self_attn.2/aten__mm"


class Made(ModuleBuilder):
    """A program in the making, with a weight `w` and another argument `h`."""

    def __init__(self):
        super().__init__("jit_f")
        self.main = self.computation("main")
        self.w = self.put("w", "parameter", parameter_number=0)
        self.h = self.put("h", "parameter", parameter_number=1)

    def put(self, name, opcode, *operands, result=X, **fields):
        """An instruction of the entry, which is the last of its computations."""
        return self.add(self.main, name, opcode, result, *operands, **fields)

    def copy(self, name, source):
        """An asynchronous copy: its done."""
        start = self.put(f"{name}-start", "copy-start", source, result=PAIR)
        return self.put(f"{name}-done", "copy-done", start)

    def scopes(self):
        """By name, of the scheduled instructions without an op_name."""
        self.module.entry_computation_id = self.main.id
        for each in self.module.computations:
            ids = [one.id for one in each.instructions]
            self.module.schedule.sequences.add(key=each.id).value.instruction_ids.extend(ids)
        program = parse_program(self.serialize(), 7, "f")
        found = scopes_by_use(program, places(program))
        return {program.by_id[number].name.decode(): tuple(each) for number, each in found.items()}


def test_a_copy_ahead_has_the_scope_of_its_first_user_that_states_one():
    made = Made()
    done = made.copy("copy", made.w)
    cast = made.put("cast", "convert", done, op_name="xla__cast")
    product = made.put("product", "dot", made.h, cast, op_name=MLP_2)
    made.put("next", "dot", product, made.h, op_name=ATTENTION_3)
    assert made.scopes() == {"copy-start": (2, "mlp"), "copy-done": (2, "mlp")}


def test_users_that_disagree_leave_only_what_they_agree_on():
    made = Made()
    done, other, third = (made.copy(name, made.w) for name in ("both", "all", "here"))
    made.put("a", "dot", done, other, op_name=MLP_2)
    made.put("b", "dot", done, other, op_name=MLP_3)
    made.put("c", "dot", third, other, op_name=ATTENTION_3)
    made.put("d", "dot", third, made.h, op_name=MLP_3)
    found = made.scopes()
    assert (found["both-start"], found["here-done"]) == ((None, "mlp"), (3, None))
    assert "all-start" not in found


def test_parts_that_are_copied_by_themselves_have_the_scope_of_the_whole():
    """As libtpu splits a weight: slices in async computations, which a bitcast joins."""
    made = Made()
    part = made.computation("part")
    given = made.add(part, "given", "parameter", X)
    made.add(part, "slice", "slice", X, given)
    # Callers stand behind what they call.
    module = made.module
    entry, inner = module.computations[0], module.computations[1]
    start = made.put("slice-start", "async-start", made.w, result=PAIR, calls=[part])
    done = made.put("slice-done", "async-done", start)
    whole = made.put("whole", "custom-call", done)
    made.put("product", "dot", made.h, whole, op_name=MLP_2)
    order = [type(entry).FromString(each.SerializeToString()) for each in (inner, entry)]
    del module.computations[:]
    module.computations.extend(order)
    made.main = module.computations[1]
    names = ("slice", "slice-start", "slice-done", "whole")
    assert made.scopes() == dict.fromkeys(names, (2, "mlp"))


def test_a_copy_back_that_is_returned_has_the_scope_of_its_maker():
    made = Made()
    product = made.put("product", "dot", made.h, made.w, op_name=ATTENTION_3)
    done = made.copy("back", product)
    made.put("results", "tuple", done, made.h, result=PAIR)
    found = made.scopes()
    assert (found["back-start"], found["back-done"]) == ((3, "attention"), (3, "attention"))


def test_what_a_loop_takes_is_not_known():
    made = Made()
    product = made.put("product", "dot", made.h, made.w, op_name=MLP_2)
    done = made.copy("copy", product)
    looped = made.put("looped", "while", done)
    made.put("last", "dot", looped, made.h, op_name=MLP_3)
    assert made.scopes() == {}


def test_real_prefetches_are_of_the_weights_of_each_part():
    """By hand: fsdp4, layer 0 is dense (gate, up, down of 8 KiB), layers 1 and 2 have experts: a router of
    2 KiB, three matrices of 4 KiB of the shared expert, two of routed ones; embedding and head of 32 KiB."""
    raw = gzip.decompress(
        (COMPILED / "fsdp4_decode_v6e.libtpu0.0.21.hlo_module.pb.gz").read_bytes()
    )
    whole = message_class("HloProto")()
    whole.hlo_module.ParseFromString(raw)
    program = parse_program(whole.SerializeToString(), 1, "m")
    scopes = scopes_by_use(program, places(program))
    starts = [each for _, each in program.instructions() if each.opcode == b"copy-start"]
    sizes = Counter()
    for each in starts:
        sizes[*scopes[each.id], logical_bytes(each.shape.tuple_shapes[0])] += 1
    found = {key: n for key, n in sizes.items() if key[1] in ("mlp", "moe", "embedding", "head")}
    routed = {(layer, "moe", size): 1 for layer in (1, 2) for size in (32 << 10, 16 << 10, 2 << 10)}
    shared = {(layer, "moe", 4 << 10): 3 for layer in (1, 2)}
    ends = {(None, "embedding", 32 << 10): 1, (None, "head", 32 << 10): 1}
    assert found == routed | shared | ends | {(0, "mlp", 8 << 10): 3}
