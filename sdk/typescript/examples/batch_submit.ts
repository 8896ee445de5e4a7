// Offers many jobs on one stream, and tells what became of each.
import { Client } from "@keywork/sdk";

await using client = Client.fromEnv();
const jobs = Array.from({ length: 10_000 }, (_, number) => ({
  queue: "reindex",
  key: `document-${number}`,
}));

const count = { accepted: 0, busy: 0, failed: 0 };
for (const { result, error } of await client.submitMany(jobs)) {
  if (result !== undefined) {
    count[result.accepted ? "accepted" : "busy"] += 1;
  } else {
    count.failed += 1;
    console.error(`${error.message} (may be retried: ${error.isRetryable()})`);
  }
}
console.log(`accepted ${count.accepted}, busy ${count.busy}, failed ${count.failed}`);
