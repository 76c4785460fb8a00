"""What the workers wrote down: checks it, and trains again without faults."""

import bisect
import subprocess

from cluster import Violation


class Life:
    """The steps that a process has applied since it received the state."""

    def __init__(self, name):
        self.name, self.steps = name, []


class History:
    """step -> world; the times of steps."""

    def __init__(self, cluster):
        self.cluster, self.lives, self.applied = cluster, [], {}
        self.forward = 0
        for name in cluster.names:
            self._read(name)
        self.last = max(self.applied)
        self.times = sorted(times[0] for *_, times in self.applied.values())

    def _read(self, name):
        life = None
        with open(self.cluster.folder / f"{name}.record", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[0] == "life":
                    life = Life(name)
                    self.lives.append(life)
                elif len(words) == 7:
                    self._add(life, words)

    def _add(self, life, words):
        step, epoch, world, time = int(words[0]), int(words[1]), int(words[2]), int(words[5]) / 1e9
        if life.steps and step != life.steps[-1] + 1:
            raise Violation(f"{life.name} applied step {step} after step {life.steps[-1]}")
        life.steps.append(step)
        self.forward += words[6] == "forward"
        said = self.applied.setdefault(step, (epoch, world, words[4], []))
        if said[:3] != (epoch, world, words[4]):
            raise Violation(f"step {step}: {life.name} applied an update of epoch {epoch}, {world} workers, giving "
                            f"{words[4]}; another worker one of epoch {said[0]}, {said[1]} workers, giving {said[2]}")
        said[3].append(time)

    def check(self):
        """Every step once, by all its workers but those that died. Then the final weights."""
        steps = sorted(self.applied)
        if steps != list(range(1, self.last + 1)):
            raise Violation(f"steps are missing: {len(steps)} of {self.last}")
        ended = {}
        for life in self.lives:
            if life.steps and life.steps[-1] != self.last:
                ended[life.steps[-1]] = ended.get(life.steps[-1], 0) + 1
        for step in steps:
            _, world, _, times = self.applied[step]
            absent = world - len(times)
            if absent < 0 or absent > ended.get(step - 1, 0):
                raise Violation(f"step {step} was applied by {len(times)} of {world} workers; "
                                f"{ended.get(step - 1, 0)} died after step {step - 1}")
        return self._replay(steps)

    def _replay(self, steps):
        runs = []
        for step in steps:
            world = self.applied[step][1]
            if runs and runs[-1][1] == world:
                runs[-1][0] += 1
            else:
                runs.append([1, world])
        file = self.cluster.folder / "history"
        file.write_text("".join(f"{count} {world}\n" for count, world in runs))
        said = []
        for worker in self.cluster.all():
            if worker.weights.read_bytes() != self.cluster.all()[0].weights.read_bytes():
                raise Violation(f"{worker.name} has other weights than {self.cluster.all()[0].name}")
        done = subprocess.run(
            [self.cluster.binaries / "chaos_replay", str(self.cluster.seed), file, self.cluster.all()[0].weights],
            capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip()
        if done.returncode != 0:
            raise Violation(f"the weights are not those of the replay: {said}")
        return f"{said}; world changed {len(runs) - 1} times, {self.forward} updates rolled forward"

    # --- Rates ---

    def count(self, begin, end):
        """Steps whose update was first applied in this time."""
        return bisect.bisect_left(self.times, end) - bisect.bisect_left(self.times, begin)
