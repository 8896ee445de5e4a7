//! Offers many jobs on one stream, and tells what became of each.
use keywork_sdk::{Client, Submit, SubmitOutcome};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    let keys = (0..10_000).map(|number| format!("document-{number}"));
    let results = client
        .submit_many(keys.map(|key| Submit::new("reindex", key)))
        .await;

    let (mut accepted, mut busy, mut failed) = (0, 0, 0);
    for result in &results {
        match result {
            Ok(SubmitOutcome::AlreadyOutstanding(_)) => busy += 1,
            Ok(_) => accepted += 1,
            Err(error) => {
                failed += 1;
                eprintln!("{error} (may be retried: {})", error.is_retryable());
            }
        }
    }
    eprintln!("accepted {accepted}, busy {busy}, failed {failed}");
    Ok(())
}
