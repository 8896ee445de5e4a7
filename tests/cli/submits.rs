//! What is submitted, and what is said of it.

use super::*;

#[tokio::test]
async fn a_submit_is_created_and_the_same_key_again_is_busy() -> Tested {
    let server = FakeServer::start().await?;
    let first = run(&server, &["submit", "q", "k", "--payload", "v1"], "").await;
    assert_eq!(code(&first), 0, "{first:?}");
    assert!(text(&first.stdout).starts_with("created q/k as "));
    let second = run(&server, &["submit", "q", "k", "-"], "v2").await;
    assert_eq!(code(&second), 3);
    assert!(text(&second.stdout).starts_with("busy: q/k"), "{second:?}");
    let job = server.outstanding("q", "k").ok_or("the job")?;
    assert_eq!(job.payload.as_ref(), b"v1");
    Ok(())
}

#[tokio::test]
async fn json_has_the_names_of_the_proto() -> Tested {
    let server = FakeServer::start().await?;
    let args = [
        "submit",
        "q",
        "k",
        "--output",
        "json",
        "--attribute",
        "a=b",
        "--max-attempts",
        "3",
    ];
    let created = &lines(&run(&server, &args, "").await)[0];
    assert_eq!(created["outcome"], "CREATED");
    assert_eq!(created["job"]["max_attempts"], 3);
    let got = &lines(&run(&server, &["job", "get", "q", "k", "--output", "json"], "").await)[0];
    assert_eq!(
        (&got["key"], &got["state"], &got["attributes"]["a"]),
        (&"k".into(), &"QUEUED".into(), &"b".into())
    );
    Ok(())
}

#[tokio::test]
async fn a_payload_comes_from_stdin_as_it_is() -> Tested {
    let server = FakeServer::start().await?;
    run(&server, &["submit", "q", "k", "-"], "line one\nline two\n").await;
    let job = server.outstanding("q", "k").ok_or("the job")?;
    assert_eq!(job.payload.as_ref(), b"line one\nline two\n");
    Ok(())
}

#[tokio::test]
async fn exit_codes_tell_what_kind_of_failure_it_is() -> Tested {
    let server = FakeServer::start().await?;
    let no_job = run(&server, &["job", "get", "q", "nothing"], "").await;
    assert_eq!(code(&no_job), 4);
    assert!(text(&no_job.stderr).starts_with("keywork: failed to get q/nothing"));
    assert_eq!(
        code(&run(&server, &["queue", "get", "nothing"], "").await),
        4
    );
    assert_eq!(code(&run(&server, &["submit", "q", ""], "").await), 2);
    assert_eq!(code(&run(&server, &["submit", "q"], "").await), 2);
    run(&server, &["submit", "q", "k"], "").await;
    assert_eq!(
        code(&run(&server, &["submit", "q", "k", "--on-conflict", "fail"], "").await),
        3
    );
    let away = [
        "submit",
        "q",
        "k",
        "--server",
        "http://127.0.0.1:1",
        "--timeout",
        "200ms",
    ];
    assert_eq!(code(&run(&server, &away, "").await), 75);
    Ok(())
}
