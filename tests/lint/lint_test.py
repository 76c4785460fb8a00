"""Each rule of tools/lint refuses what it should, and accepts similar text."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools/lint"))

import includes  # noqa: E402
import lint  # noqa: E402
import programs  # noqa: E402
import text_rules  # noqa: E402
import type_names  # noqa: E402
from tree import Tree  # noqa: E402

HEADERS = {
    "client/include/lockstep/dtype.h": "",
    "plan/bucket.h": "",
    "plan/verify/verify.h": "",
    "plan/timeline/timeline.h": "",
    "client/pipeline/runner.h": "",
    "proto/codec.h": "",
    "server/core/event.h": "",
    "client/include/lockstep/session.h": "",
    "client/session/loop.h": "",
    "kernels/pack.h": "",
    "base/mutex.h": "",
}


class RuleTest(unittest.TestCase):

    def refuse(self, rule, path, text, at_line=None):
        found = list(rule(Tree({**HEADERS, path: text})))
        self.assertEqual([finding.path for finding in found], [path], f"{path}: {text}")
        if at_line:
            self.assertEqual(found[0].line, at_line)

    def accept(self, rule, path, text):
        self.assertEqual(list(rule(Tree({**HEADERS, path: text}))), [], f"{path}: {text}")


class IncludesTest(RuleTest):

    def test_arrows_point_one_way(self):
        for path, header in [
                ("plan/x.cc", "proto/codec.h"),
                ("plan/x.cc", "lockstep/session.h"),
                ("proto/x.cc", "client/session/loop.h"),
                ("proto/codec.cc", "server/core/event.h"),
                ("server/rpc/x.cc", "client/session/loop.h"),
                ("server/lockstepd.cc", "lockstep/session.h"),
                ("server/core/x.cc", "server/rpc/x.h"),
                ("client/session/x.cc", "server/core/event.h"),
                ("client/session/x.cc", "tools/x.h"),
                ("kernels/x.cc", "client/session/loop.h"),
                ("tools/x.cc", "server/core/event.h"),
                ("examples/digits/x.cc", "server/core/event.h"),
                ("base/x.cc", "plan/bucket.h"),
                ("spec/x.cc", "plan/bucket.h"),
                ("plan/x.cc", "plan/verify/verify.h"),
                ("plan/verify/x.cc", "plan/timeline/timeline.h"),
                ("client/transport/x.cc", "client/session/loop.h"),
                ("client/gradient/x.cc", "client/pipeline/runner.h"),
        ]:
            self.refuse(includes.arrows, path, f'#pragma once\n#include "{header}"\n', at_line=2)

    def test_arrows_that_are_allowed(self):
        for path, header in [
                ("plan/x.cc", "lockstep/dtype.h"),
                ("plan/verify/x.cc", "plan/bucket.h"),
                ("client/gradient/x.cc", "client/session/loop.h"),
                ("server/rpc/x.cc", "server/core/event.h"),
                ("server/runtime/x.cc", "base/mutex.h"),
                ("server/core/x.cc", "plan/bucket.h"),
                ("client/session/x.cc", "proto/codec.h"),
                ("client/gradient/x.cc", "kernels/pack.h"),
                ("tools/x.cc", "lockstep/session.h"),
                ("tests/server/x_test.cc", "client/session/loop.h"),
                ("client/session/x.cc", "absl/status/status.h"),
        ]:
            self.accept(includes.arrows, path, f'#include "{header}"\n')

    def test_a_folder_that_is_no_module(self):
        self.refuse(includes.arrows, "cellar/x.cc", "")

    def test_pure_modules_know_no_effects(self):
        for path in ("plan/x.cc", "server/core/x.h", "client/session/machine.cc",
                     "client/session/machine_timers.h"):
            for header in ("<thread>", "<mutex>", "<chrono>", "<fstream>", "<grpcpp/grpcpp.h>",
                           "<google/protobuf/message.h>", '"base/mutex.h"',
                           '"lockstep/v1/session.pb.h"', '"absl/time/clock.h"'):
                self.refuse(includes.pure, path, f"#include {header}\n")
            self.refuse(includes.pure, path, "// absl::Now\nauto t = absl::Now();\n", at_line=2)
            self.accept(includes.pure, path,
                        '#include <vector>\n#include "absl/time/time.h"\n#include "base/check.h"\n')

    def test_core_includes_plan_std_and_absl_only(self):
        for header in ("<yaml-cpp/yaml.h>", "<unistd.h>", '"nlohmann/json.hpp"'):
            self.refuse(includes.pure, "server/core/x.cc", f"#include {header}\n")
        self.accept(includes.pure, "plan/x.cc", "#include <nlohmann/json.hpp>\n")

    def test_impure_modules_may(self):
        self.accept(includes.pure, "client/session/loop.cc", "#include <thread>\nabsl::Now();\n")

    def test_generated_messages_stay_at_the_edge(self):
        include = '#include "lockstep/v1/session.pb.h"\n'
        for path in ("server/runtime/x.cc", "client/session/loop.cc", "tools/x.cc"):
            self.refuse(includes.wire_edge, path, include)
        for path in ("proto/codec.cc", "server/rpc/x.cc", "client/session/grpc_channel.cc",
                     "tools/rpc/admin.cc", "tests/proto/golden_test.cc"):
            self.accept(includes.wire_edge, path, include)


class TextRulesTest(RuleTest):

    def test_locks(self):
        for word in ("Mutex m;", "MutexLock lock(&m);", "Notification done;", "BlockingCounter n(2);"):
            self.refuse(text_rules.locks, "client/x.cc", "absl::" + word)
        self.refuse(text_rules.locks, "client/x.h", '#include "absl/synchronization/mutex.h"')
        self.accept(text_rules.locks, "base/mutex.h", "// absl::Mutex is not for us\nstd::mutex mutex_;")

    def test_nccl_names(self):
        for path in ("client/transport/gloo/x.cc", "tests/client/x_test.cc"):
            self.refuse(text_rules.nccl_names, path, "ncclComm_t comm;")
            self.refuse(text_rules.nccl_names, path, 'dlsym(library, "ncclAllReduce");')
        self.accept(text_rules.nccl_names, "client/transport/nccl/x.cc", "ncclComm_t comm;")
        self.accept(text_rules.nccl_names, "client/x.h", "/* ncclComm_t\n is elsewhere */")

    def test_launches(self):
        self.refuse(text_rules.launches, "client/x.cu", "Pack<<<1, 2>>>();")
        self.refuse(text_rules.launches, "kernels/pack.cu", "Pack<<<1, 2>>>();")
        self.refuse(text_rules.launches, "kernels/slots.cuh", "Pack<<<1, 2>>>();")
        self.accept(text_rules.launches, "kernels/device/pack.cu", "LaunchKernel(Pack, 1, 2, stream);")
        self.accept(text_rules.launches, "examples/digits/device/launch.cu", "Run<<<1, 2>>>();")
        self.refuse(text_rules.launches, "examples/digits/launch.cu", "Run<<<1, 2>>>();")
        self.accept(text_rules.launches, "client/x.cc", "// says <<< >>>\nout << a << b;")

    def test_comment_openers(self):
        for opener in ("Of", "That", "Its", "Whom"):
            self.refuse(text_rules.comment_openers, "base/x.h", f"  // {opener} a rank.")
        self.accept(text_rules.comment_openers, "base/x.h", "// A rank.\n// Its steps.")
        self.accept(text_rules.comment_openers, "base/x.h", "// Often. Offers of it.")

    def test_replaced_names(self):
        self.refuse(text_rules.replaced_names, "base/x.h", "struct Tally {};")
        self.accept(text_rules.replaced_names, "base/x.h", "struct Totals {};  // a tally")

    def test_unique_types(self):
        for first, second in [
                ("struct Place {};", "class Place final : public Base {\n};"),
                ("namespace a {\nstruct Place {};\n}", "namespace b {\nenum class Place : int { kA };\n}"),
                ("struct Place {};", "class Other {\n  struct Place {};\n};"),
                ("template <class T>\nstruct Place {};", "struct alignas(64) Place {};"),
                ("struct Place {};", "int F() {\n  struct Place {};\n}"),
        ]:
            tree = Tree({"base/a.h": first, "base/b.h": second})
            found = list(type_names.unique_types(tree))
            self.assertEqual([finding.path for finding in found], ["base/b.h"], second)
        for first, second in [
                ("class A {\n  struct Place {};\n};", "class B {\n  struct Place {};\n};"),
                ("struct Place {};", "struct Place;"),
                ("struct Place {};", "Place F(struct Place& place) {\n}"),
                ("struct Place {};", "// struct Place {\nconst char* a = \"struct Place {\";"),
                ("struct Place {};", "template <class Place>\nvoid F() {}"),
                ("struct Place {};", "class A {\n  Place place_ = {};\n};"),
        ]:
            tree = Tree({"base/a.h": first, "base/b.h": second})
            self.assertEqual(list(type_names.unique_types(tree)), [], second)
        tree = Tree({"base/a.h": "struct Place {};", "tests/b.h": "struct Place {};"})
        self.assertEqual(list(type_names.unique_types(tree)), [])

    def test_disabled_tests(self):
        name = "DISABLED" + "_Meets"
        self.refuse(text_rules.disabled_tests, "tests/x_test.cc", f"TEST(A, {name}) {{}}")
        self.refuse(text_rules.disabled_tests, "tests/CMakeLists.txt",
                    "set_tests_properties(x PROPERTIES DISABLED TRUE)")

    def test_machine_paths(self):
        for folder in ("work", "home/ann", "root"):
            path = f"/{folder}/"
            self.refuse(text_rules.machine_paths, "docs/x.md", f"see\n{path}notes", at_line=2)
            self.refuse(text_rules.machine_paths, "x.sh", f'cp a "{path}b"')
        self.accept(text_rules.machine_paths, "docs/x.md", "tests/work/x $HOME/root/ a/home/ann/")

    def test_budgets(self):
        budgets = {"tests/budgets.txt": "# label seconds\nunit 10\nasan 3\n"}
        text = "lockstep_test(a SOURCES a.cc\n  LABELS unit chaos TIMEOUT 3)\n"
        found = list(text_rules.budgets(Tree({**budgets, "tests/a/CMakeLists.txt": text})))
        self.assertEqual([(f.line, "'chaos'" in f.message) for f in found], [(2, True)])
        text = "lockstep_register_test(b COMMAND b LABELS unit)\n"
        self.assertEqual(list(text_rules.budgets(Tree({**budgets, "tests/CMakeLists.txt": text}))), [])


    def test_environment(self):
        table = {"docs/environment.md": "| variable |\n| `LOCKSTEP_JOB` | the job |\n"}
        read = {"client/x.cc": '// "LOCKSTEP_OLD"\nstd::getenv("LOCKSTEP_JOB");\n'}
        self.assertEqual(list(text_rules.environment(Tree({**table, **read}))), [])
        found = list(text_rules.environment(Tree({**read, "docs/environment.md": ""})))
        self.assertEqual([(f.path, f.line) for f in found], [("client/x.cc", 2)])
        found = list(text_rules.environment(Tree(table)))
        self.assertEqual([(f.path, f.line) for f in found], [("docs/environment.md", 2)])
        door = {"tools/run/common.sh": 'n="${LOCKSTEP_JOBS:-2}"', "tests/x.cc": '"LOCKSTEP_X"'}
        found = list(text_rules.environment(Tree(door)))
        self.assertEqual([f.path for f in found], ["tools/run/common.sh"])


class ProgramsTest(unittest.TestCase):

    def found(self, rule, path, text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ".clang-format").write_text((ROOT / ".clang-format").read_text())
            (Path(folder) / path).write_text(text)
            return list(rule(Tree({path: text}, Path(folder))))

    def test_format(self):
        self.assertEqual(self.found(programs.cpp_format, "x.cc", "int  a;\n\n\nint b ;\n")[0].path, "x.cc")
        self.assertEqual(self.found(programs.cpp_format, "x.cc", "int a;\n"), [])

    def test_shell(self):
        bad = self.found(programs.shell, "door", "#!/bin/bash\n\nrm $1\n")
        self.assertEqual([(finding.path, finding.line) for finding in bad], [("door", 3)])
        self.assertEqual(self.found(programs.shell, "x.sh", '#!/bin/bash\nrm "$1"\n'), [])


class CommandTest(unittest.TestCase):

    def test_every_rule_says_what_it_holds(self):
        for name, rule in lint.RULES.items():
            self.assertTrue(rule.__doc__, name)

    def test_an_unknown_rule_is_refused(self):
        self.assertEqual(lint.main(["no-such-rule"]), 2)


if __name__ == "__main__":
    unittest.main()
