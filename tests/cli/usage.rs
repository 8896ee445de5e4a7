//! What is refused up front, and how it is said.

use super::*;

/// What is wrong is found before a server is asked, and named with its range.
#[tokio::test]
async fn a_value_out_of_range_is_refused_up_front_by_flag_and_range() -> Tested {
    let server = FakeServer::start().await?;
    let nil = "00000000-0000-0000-0000-000000000000";
    let submits = [
        ("--delay", "-1s", "negative"),
        ("--max-attempts", "0", "1..=1000"),
        ("--max-attempts", "-1", "1..=1000"),
        ("--timeout", "0s", "1ms to 366d"),
        ("--timeout", "-5s", "negative"),
        ("--request-id", nil, "all zeros"),
        ("--request-id", "x", "no UUID"),
        ("--start-at", "-1", "no time"),
    ];
    let refused = async |args: &[&str], flag: &str, range: &str| {
        let output = run(&server, args, "").await;
        let told = text(&output.stderr);
        assert_eq!(code(&output), 2, "{args:?}: {told}");
        assert!(told.contains(flag) && told.contains(range), "{told}");
    };
    for (flag, value, range) in submits {
        refused(&["submit", "q", "k", flag, value], flag, range).await;
    }
    for value in ["0", "-1", "100001"] {
        let args = ["work", "q", "--concurrency", value, "--", "true"];
        refused(&args, "--concurrency", "1..=100000").await;
    }
    for queue in ["q=0", "q=101", "q=-1", "q=x"] {
        refused(&["work", queue, "--", "true"], "WEIGHT", "1 to 100").await;
    }
    let queues = [
        ("--max-depth", "0", "1..=1000000000"),
        ("--max-depth", "-1", "1..=1000000000"),
        ("--max-attempts", "0", "1..=1000"),
        ("--lease-duration", "-15s", "negative"),
    ];
    for (flag, value, range) in queues {
        refused(&["queue", "create", "q", flag, value], flag, range).await;
        refused(&["queue", "update", "q", flag, value], flag, range).await;
    }
    refused(&["dead", "list", "q", "--limit", "0"], "--limit", "1..").await;
    refused(
        &["dead", "redrive", "q", "--oldest", "-1"],
        "--oldest",
        "1..=1000",
    )
    .await;
    refused(&["serve", "--output", "json"], "--output", "serve").await;
    assert!(server.seen().submits.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_none_or_not_there_is_named() -> Tested {
    let server = FakeServer::start().await?;
    for bad in [
        "",
        "localhost:50051",
        "ftp://localhost",
        "https://localhost",
        "http://",
        "http://localhost:99999",
        "http://[::1]:x",
    ] {
        let output = run(&server, &["submit", "q", "k", "--server", bad], "").await;
        let told = text(&output.stderr);
        assert_eq!(code(&output), 2, "{told}");
        assert!(told.contains("--server") && told.contains(bad), "{told}");
    }
    let dead = ["--server", "http://127.0.0.1:1", "--timeout", "1s"];
    for command in [
        &["submit", "q", "k"][..],
        &["queue", "list"],
        &["job", "get", "q", "k"],
    ] {
        let output = run(&server, &[&dead[..], command].concat(), "").await;
        let told = text(&output.stderr);
        assert_eq!(code(&output), 75, "{told}");
        assert!(
            told.contains("http://127.0.0.1:1 cannot be reached"),
            "{told}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn options_of_all_commands_stand_before_the_command_or_after_it() -> Tested {
    let server = FakeServer::start().await?;
    let json = ["--output", "json"];
    let created = lines(&run(&server, &[&json[..], &["submit", "q", "k"]].concat(), "").await);
    assert_eq!(created[0]["outcome"], "CREATED");
    for args in [
        ["queue", "get", "q", "--output", "json"],
        ["queue", "--output", "json", "get", "q"],
        ["--output", "json", "queue", "get", "q"],
    ] {
        let queue = &lines(&run(&server, &args, "").await)[0];
        assert_eq!(queue["name"], "q");
        let config = queue["config"].as_object().ok_or("a configuration")?;
        assert!(
            !config.contains_key("disconnect_grace"),
            "what a queue does without is left out: {config:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_there_is_said_and_named() -> Tested {
    let server = FakeServer::start().await?;
    let none = run(&server, &["queue", "list"], "").await;
    assert!(text(&none.stderr).contains("there is no queue"), "{none:?}");
    run(&server, &["queue", "create", "q"], "").await;
    let none = run(&server, &["dead", "list", "q"], "").await;
    assert_eq!((code(&none), none.stdout.len()), (0, 0));
    assert!(
        text(&none.stderr).contains("q has no dead letter"),
        "{none:?}"
    );
    let none = run(&server, &["dead", "list", "q", "--output", "json"], "").await;
    assert_eq!(
        (code(&none), none.stdout.len(), none.stderr.len()),
        (0, 0, 0)
    );
    let none = run(&server, &["job", "get", "q", "k"], "").await;
    assert_eq!(code(&none), 4);
    assert!(text(&none.stderr).contains("[JOB_NOT_FOUND]"), "{none:?}");
    Ok(())
}

#[tokio::test]
async fn keys_are_shown_escaped() -> Tested {
    let server = FakeServer::start().await?;
    let key = "a\u{1b}[31m\u{202e}";
    let shown = r"q/a\u{1b}[31m\u{202e}";
    let created = run(&server, &["submit", "q", key], "").await;
    assert!(text(&created.stdout).contains(shown), "{created:?}");
    let failed = run(&server, &["submit", "q", key, "--on-conflict", "fail"], "").await;
    assert!(text(&failed.stderr).contains(shown), "{failed:?}");
    let got = run(&server, &["job", "get", "q", key], "").await;
    assert!(text(&got.stdout).contains(&shown[2..]), "{got:?}");
    Ok(())
}

#[tokio::test]
async fn usage_shows_all_forms() -> Tested {
    let server = FakeServer::start().await?;
    for (command, forms) in [
        (&["submit"][..], &["<KEY>", "--jsonl <PATH>"][..]),
        (&["dead", "redrive"], &["<ID>...", "--oldest <N>"]),
        (&["dead", "delete"], &["<ID>...", "--all"]),
        (&["work"], &["<QUEUE[=WEIGHT]>...", "-- <COMMAND>..."]),
    ] {
        let help = text(
            &run(&server, &[command, &["--help"]].concat(), "")
                .await
                .stdout,
        );
        let usage = help.split("\n\n").find(|part| part.starts_with("Usage:"));
        let usage = usage.ok_or("a usage")?;
        for form in forms {
            assert!(usage.contains(form), "{usage}");
        }
    }
    Ok(())
}
