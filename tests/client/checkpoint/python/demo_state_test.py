"""The demonstration is killed, goes on from its checkpoint, and other programs read what it saved.

    demo_state_test.py BIN_FOLDER

Runs with the packages of requirements.txt beside it.
"""

import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy
import safetensors.numpy

BIN = Path(sys.argv.pop(1)).resolve()
STEPS = 60


def run(program, *words, code=0):
    done = subprocess.run([BIN / program, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def demo(state, *words, code=0):
    return run("lockstep-demo", "--steps", STEPS, "--state", state, *words, code=code)


def until_done(program, *words):
    """The output of a command that is repeated until it succeeds."""
    for _ in range(600):
        done = subprocess.run([BIN / program, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return done.stdout
        time.sleep(0.05)
    raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")


class DemoStateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = Path(folder.name, "state")

    def kill(self, *words):
        killed = demo(self.state, "--kill-all", "--at-step", 20, *words, code=3)
        self.assertRegex(killed, r"demo: KILLED after \d+ steps")
        self.assertTrue(any(Path(self.state, "checkpoints").glob("step-*/MANIFEST.json")))

    def resume(self, *words):
        resumed = demo(self.state, "--resume", *words)
        self.assertRegex(resumed, r"resumed from step [12]0; .*: equal, bit for bit")
        self.assertIn("demo: PASS", resumed)

    def test_goes_on_bit_for_bit(self):
        self.kill()
        self.resume()
        self.check_consolidated()

    def test_goes_on_with_other_workers(self):
        self.kill("--leaves", 8)
        self.resume("--leaves", 8, "--workers", 2)

    def test_goes_on_with_slices(self):
        self.kill("--sync", "reduce_scatter")
        self.resume("--sync", "reduce_scatter")

    def test_goes_on_with_slices_of_other_workers(self):
        self.kill("--sync", "reduce_scatter", "--workers", 3)
        resumed = demo(self.state, "--resume", "--sync", "reduce_scatter", "--workers", 2)
        self.assertRegex(resumed, r"they differ by up to|equal, bit for bit")
        self.assertIn("demo: PASS", resumed)

    def test_goes_on_as_a_pipeline(self):
        self.kill("--mesh", "data=2,pipe=2")
        self.resume("--mesh", "data=2,pipe=2")

    def test_a_pipeline_goes_on_without_stages(self):
        self.kill("--mesh", "data=1,pipe=2")
        resumed = demo(self.state, "--resume", "--workers", 2)
        self.assertIn("training without interruption, on mesh data=1,pipe=2", resumed)
        self.assertIn("demo: PASS", resumed)

    def test_saves_when_an_operator_asks(self):
        held = subprocess.Popen(
            [BIN / "lockstep-demo", "--hold", "--state", self.state, "--save-every", "1000000000"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(held.stdout.close)
        self.addCleanup(held.wait)
        self.addCleanup(held.terminate)
        address = next(line.split()[1] for line in held.stdout if line.startswith("coordinator:"))
        asked = until_done("lockstepctl", "--address", address, "save", "--wait", "digits")
        saved = r"step \d+ is saved \(attempt 1\)"
        self.assertRegex(asked, saved)
        described = run("lockstepctl", "--address", address, "describe", "digits")
        self.assertRegex(described, saved.replace("saved", "committed"))
        run("lockstepctl", "--address", address, "drain", "digits")
        self.assertIn("ENDED by an operator", held.stdout.read())
        run("lockstepctl", "checkpoint", "verify", self.state)
        self.assertEqual(len(list(Path(self.state, "checkpoints").glob("step-*"))), 1)

    def check_consolidated(self):
        """What the last checkpoint has is what the training ended with."""
        target = self.state.parent / "model.safetensors"
        run("lockstepctl", "checkpoint", "consolidate", self.state, target)
        tensors = safetensors.numpy.load_file(target)
        for name in [name for name in tensors if not name.endswith(".velocity")]:
            velocity = tensors.pop(f"{name}.velocity")
            self.assertEqual(velocity.shape, tensors[name].shape)
            self.assertEqual(velocity.dtype, numpy.float64)
            self.assertTrue(numpy.abs(velocity).max() > 0)
        self.assertTrue(tensors)
        run("lockstepctl", "checkpoint", "import", target, self.state.parent / "other")
        imported = Path(self.state.parent, "other", "checkpoints").glob("step-*")
        self.assertEqual([f.name for f in imported], [f"step-{STEPS}-epoch-0-attempt-1"])
        self.assertTrue(all(t.dtype == numpy.float64 for t in tensors.values()), tensors.keys())

    def test_refuses_what_does_not_fit(self):
        self.assertIn("no checkpoint to resume from", demo(self.state, "--resume", code=1))
        self.kill()
        for words, why in (
                ((), "go on from it with --resume"),
                (("--resume", "--leaves", 8), "saved with --leaves 0"),
                (("--resume", "--steps", 10), "nothing to resume")):
            refused = run("lockstep-demo", "--state", self.state, *words, code=1)
            self.assertIn(why, refused)
        other = demo(self.state, "--resume", "--seed", 2, code=1)
        self.assertIn("of another training", other)

    def test_a_flipped_byte_is_found(self):
        self.kill()
        run("lockstepctl", "checkpoint", "verify", self.state)
        committed = Path(self.state, "checkpoints").glob("step-*/MANIFEST.json")
        newest = max(committed, key=lambda path: int(path.parent.name.split("-")[-1])).parent
        file = newest / "rank-1.safetensors"
        data = bytearray(file.read_bytes())
        data[-3] ^= 4
        file.write_bytes(data)
        self.assertIn(file.name, run("lockstepctl", "checkpoint", "verify", self.state, code=1))
        resumed = demo(self.state, "--resume", code=1)
        self.assertRegex(resumed, rf"(weight|bias|velocity)\": .*/{file.name}: block \d+ ")


if __name__ == "__main__":
    unittest.main()
