package dev.keywork.testing;

import java.util.ArrayList;
import java.util.List;

/** What a fake server notes while it works. */
final class Notes {
  final List<SeenHello> hellos = new ArrayList<>();
  int sessions;
  int heartbeats;
  int capacity = -1;
  final List<SeenSettlement> settlements = new ArrayList<>();
  int settlementMessages;
  final List<String> delivered = new ArrayList<>();
  int drains;
  final List<String> submits = new ArrayList<>();
  int expired;

  Seen read() {
    return new Seen(
        List.copyOf(hellos),
        sessions,
        heartbeats,
        capacity,
        List.copyOf(settlements),
        settlementMessages,
        List.copyOf(delivered),
        drains,
        List.copyOf(submits),
        expired);
  }
}
