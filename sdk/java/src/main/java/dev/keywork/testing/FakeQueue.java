package dev.keywork.testing;

import com.google.protobuf.ByteString;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.v1.DeadJob;
import dev.keywork.internal.v1.Job;
import dev.keywork.internal.v1.QueueConfig;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** A queue of the fake server. */
final class FakeQueue {
  /** An outstanding job. */
  static final class Entry {
    Job.Builder job;

    /** Not before then; 0: at once. */
    long due;

    /** Its lease, or null. */
    ByteString lease;

    boolean isDue(long now) {
      return due <= now;
    }
  }

  QueueConfig config = QueueConfig.getDefaultInstance();
  boolean paused;
  final Map<String, Entry> jobs = new LinkedHashMap<>();
  final Deque<String> ready = new ArrayDeque<>();
  final Map<Long, DeadJob> dead = new LinkedHashMap<>();

  /** Every job that was accepted, by its id. */
  final Map<String, Job> accepted = new HashMap<>();

  /** Takes the next key that is to be leased; null: there is none. */
  String nextReady() {
    if (paused) {
      return null;
    }
    long now = Ticks.now();
    for (String key : ready) {
      Entry entry = jobs.get(key);
      if (entry != null && entry.lease == null && entry.isDue(now)) {
        ready.remove(key);
        return key;
      }
    }
    return null;
  }
}
