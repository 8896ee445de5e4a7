//! Queues and dead letters.

use super::*;

#[tokio::test]
async fn queues_are_made_changed_listed_and_deleted() -> Tested {
    let server = FakeServer::start().await?;
    let made = run(
        &server,
        &["queue", "create", "q", "--lease-duration", "30s"],
        "",
    )
    .await;
    assert_eq!(code(&made), 0, "{made:?}");
    assert!(
        text(&made.stdout).contains("lease duration  "),
        "{}",
        text(&made.stdout)
    );
    run(
        &server,
        &["queue", "update", "q", "--max-attempts", "3"],
        "",
    )
    .await;
    let got = &lines(&run(&server, &["queue", "get", "q", "--output", "json"], "").await)[0];
    assert_eq!(
        (
            &got["config"]["lease_duration"],
            &got["config"]["max_attempts"]
        ),
        (&"30s".into(), &3.into())
    );
    assert_eq!(code(&run(&server, &["queue", "pause", "q"], "").await), 0);
    let listed = run(&server, &["queue", "list"], "").await;
    assert!(text(&listed.stdout).contains("paused"));
    run(&server, &["queue", "resume", "q"], "").await;
    run(&server, &["submit", "q", "k"], "").await;
    assert_eq!(code(&run(&server, &["queue", "delete", "q"], "").await), 1);
    assert_eq!(
        text(&run(&server, &["queue", "purge", "q"], "").await.stdout),
        "ended 1 job of q\n"
    );
    assert_eq!(code(&run(&server, &["queue", "delete", "q"], "").await), 0);
    Ok(())
}

#[tokio::test]
async fn dead_letters_are_listed_redriven_and_deleted() -> Tested {
    let server = FakeServer::start().await?;
    let client = server.client()?;
    for key in ["a", "b"] {
        client.submit(Submit::new("q", key).max_attempts(1)).await?;
    }
    let worker = Worker::builder(client, ["q"])
        .build_fn(|_context, _job| async { Err("broken\nfor good".into()) });
    let ended = async {
        server
            .until("both to die", |seen| seen.settled("retry").len() == 2)
            .await;
        worker.drain();
    };
    let (ran, ()) = tokio::join!(worker.run_until(Default::default()), ended);
    ran?;
    let listed = lines(&run(&server, &["dead", "list", "q", "--output", "json"], "").await);
    assert_eq!(
        (listed.len(), &listed[0]["reason"]),
        (2, &"ATTEMPTS_EXHAUSTED".into())
    );
    let table = text(&run(&server, &["dead", "list", "q"], "").await.stdout);
    assert_eq!(table.lines().count(), 3, "{table}");
    let id = listed[0]["dead_id"].to_string();
    let redriven = run(&server, &["dead", "redrive", "q", &id], "").await;
    assert!(text(&redriven.stdout).contains("runs again"));
    let deleted = run(&server, &["dead", "delete", "q", "--all"], "").await;
    assert_eq!(text(&deleted.stdout), "deleted 1 dead letter of q\n");
    Ok(())
}
