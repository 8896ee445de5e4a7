package dev.keywork.worker;

import java.util.concurrent.atomic.LongAdder;

/** What a worker has done. */
final class Counters {
  final LongAdder started = new LongAdder();
  final LongAdder settled = new LongAdder();
  final LongAdder leasesLost = new LongAdder();
  final LongAdder droppedResults = new LongAdder();
  final LongAdder sessions = new LongAdder();

  WorkerCounts read() {
    return new WorkerCounts(
        started.sum(), settled.sum(), leasesLost.sum(), droppedResults.sum(), sessions.sum());
  }
}
