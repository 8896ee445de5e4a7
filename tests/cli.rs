//! The client commands, as a shell sees them, against a fake server.

use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
};

use keywork_sdk::{
    Submit,
    testing::{FakeServer, SubmitFault},
    worker::Worker,
};
use serde_json::Value;

type Tested = Result<(), Box<dyn std::error::Error>>;

fn keywork(server: &FakeServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keywork"));
    command.args(args).env("KEYWORK_SERVER", server.endpoint());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end, away from the test's own runtime.
async fn run(server: &FakeServer, args: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut child = keywork(server, args).spawn().expect("the binary starts");
    let stdin = stdin.as_ref().to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut pipe = child.stdin.take().expect("stdin is piped");
        // A command that ends without reading has its reasons.
        let _ = pipe.write_all(&stdin);
        drop(pipe);
        child.wait_with_output()
    });
    ended.await.expect("no panic").expect("the command ends")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = text(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

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

#[tokio::test]
async fn many_are_submitted_from_json_lines_and_a_bad_line_spoils_no_other() -> Tested {
    let server = FakeServer::start().await?;
    server.script(|script| script.submit_faults.push_back(SubmitFault::Broken));
    let input = r#"
{"key": "a", "payload": "text", "attributes": {"x": "y"}}
{"key": "b", "payload_base64": "AAEC"}
{"key": "a"}
{"kee": "c"}
{"key": ""}
{"key": "d", "delay": "1h"}
"#;
    let output = run(
        &server,
        &["submit", "q", "--jsonl", "-", "--output", "json"],
        input,
    )
    .await;
    assert_eq!(code(&output), 5, "{output:?}");
    let lines = lines(&output);
    let of = |line: u64| {
        lines
            .iter()
            .find(|value| value["line"] == line)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(of(2)["outcome"], "CREATED");
    assert_eq!(of(4)["outcome"], "ALREADY_OUTSTANDING");
    assert!(of(5)["error"]["message"].is_string());
    assert_eq!(of(6)["error"]["field"], "key");
    let summary = &lines.last().ok_or("a summary")?["summary"];
    assert_eq!(
        (&summary["created"], &summary["busy"], &summary["failed"]),
        (&3.into(), &1.into(), &2.into())
    );
    assert_eq!(
        server.outstanding("q", "b").ok_or("b")?.payload.as_ref(),
        [0, 1, 2]
    );
    Ok(())
}

#[tokio::test]
async fn json_lines_without_a_good_one_end_as_well() -> Tested {
    let server = FakeServer::start().await?;
    let args = ["submit", "q", "--jsonl", "-", "--output", "json"];
    for (input, failed) in [("", 0), ("\n\n", 0), ("{}\n\nno JSON\n", 2)] {
        let output = within("the end of the input", run(&server, &args, input)).await;
        assert_eq!(code(&output), if failed > 0 { 5 } else { 0 }, "{output:?}");
        let summary = &lines(&output).pop().ok_or("a summary")?["summary"];
        assert_eq!(summary["failed"], failed, "{summary}");
    }
    Ok(())
}

#[tokio::test]
async fn a_line_that_is_no_text_spoils_no_other() -> Tested {
    let server = FakeServer::start().await?;
    let args = ["submit", "q", "--jsonl", "-"];
    let input =
        b"{\"key\": \"a\"}\n{\"key\": \"\xff\"}\n\xfe\r\n{\"key\": \"b\"}\r\n{\"key\": \"c\"}";
    let output = within("the end of the input", run(&server, &args, input)).await;
    assert_eq!(code(&output), 5, "{output:?}");
    let complaints = text(&output.stderr);
    assert!(
        complaints.contains("line 2: ") && complaints.contains("line 3: "),
        "{complaints}"
    );
    for key in ["a", "b", "c"] {
        assert!(server.outstanding("q", key).is_some(), "{key}");
    }
    Ok(())
}

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
async fn a_json_line_with_a_value_out_of_range_names_its_field() -> Tested {
    let server = FakeServer::start().await?;
    let input = r#"
{"key": "a", "max_attempts": 0}
{"key": "a", "delay": "-1s"}
{"key": "a", "request_id": "00000000-0000-0000-0000-000000000000"}
"#;
    let output = run(&server, &["submit", "q", "--jsonl", "-"], input).await;
    let told = text(&output.stderr);
    for problem in ["2: max_attempts: ", "3: delay: ", "4: request_id: "] {
        assert!(told.contains(problem), "{told}");
    }
    assert_eq!((code(&output), server.seen().submits.len()), (5, 0));
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

#[tokio::test]
async fn what_only_a_nats_of_ones_own_can_do_is_refused_with_all_that_is_wrong() -> Tested {
    let server = FakeServer::start().await?;
    let args = [
        "serve",
        "--replicas",
        "3",
        "--nats-user",
        "me",
        "--sync",
        "never",
        "--stop-grace",
        "-1s",
    ];
    let output = run(&server, &args, "").await;
    assert_eq!(code(&output), 2);
    let told = text(&output.stderr);
    for flag in ["--replicas", "--nats-user", "--sync", "--stop-grace"] {
        assert!(told.contains(&format!("{flag}: ")), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_password_in_the_url_of_nats_is_refused_and_not_repeated() -> Tested {
    let server = FakeServer::start().await?;
    for url in [
        "nats://me:hush@127.0.0.1:4222",
        "me:hush@127.0.0.1",
        "hush@127.0.0.1",
    ] {
        let output = run(&server, &["serve", "--nats-url", url], "").await;
        assert_eq!(code(&output), 2, "{url}");
        let told = text(&output.stderr);
        assert!(told.contains("--nats-url: "), "{told}");
        assert!(!told.contains("hush"), "{told}");
    }
    Ok(())
}

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

/// A worker of the command line, which runs until it is told to stop.
struct Working(Child);

impl Working {
    fn start(server: &FakeServer, args: &[&str], script: &str) -> Self {
        let mut all = vec!["work", "q"];
        all.extend(args);
        all.extend(["--", "sh", "-c", script]);
        Self(keywork(server, &all).spawn().expect("the binary starts"))
    }

    fn signal(&self, name: &str) {
        let process = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    async fn end(self) -> Output {
        let ended = tokio::task::spawn_blocking(move || self.0.wait_with_output());
        ended.await.expect("no panic").expect("the command ends")
    }
}

#[tokio::test]
async fn the_exit_code_of_a_command_says_how_its_job_ended() -> Tested {
    let server = FakeServer::start().await?;
    let client = server.client()?;
    for key in ["done", "fail", "retry", "release"] {
        client
            .submit(
                Submit::new("q", key)
                    .payload(format!("payload of {key}"))
                    .max_attempts(1),
            )
            .await?;
    }
    let script = r#"
        read -r payload
        [ "$payload" = "payload of $KEYWORK_KEY" ] || exit 99
        [ "$KEYWORK_QUEUE $KEYWORK_ATTEMPT" = "q 1" ] && [ -n "$KEYWORK_FENCING_NUMBER" ] || exit 98
        case "$KEYWORK_KEY" in
            fail) echo "no use" >&2; exit 65 ;;
            retry) echo "try later" >&2; exit 7 ;;
            release) sleep 0.2; exit 75 ;;
        esac
    "#;
    let working = Working::start(&server, &["--concurrency", "4"], script);
    let seen = server
        .until("all four", |seen| {
            ["complete", "fail", "retry", "release"]
                .iter()
                .all(|how| !seen.settled(how).is_empty())
        })
        .await;
    assert_eq!(seen.settled("complete"), ["done"]);
    assert_eq!(seen.settled("fail"), ["fail"]);
    assert_eq!(seen.settled("retry"), ["retry"]);
    let error = |how: &str| {
        let found = seen
            .settlements
            .iter()
            .find(|settlement| settlement.outcome == how);
        found
            .map(|settlement| settlement.error.clone())
            .unwrap_or_default()
    };
    assert_eq!(error("fail"), "exit code 65: no use");
    assert_eq!(error("retry"), "exit code 7: try later");
    working.signal("TERM");
    assert_eq!(code(&working.end().await), 0);
    Ok(())
}

#[tokio::test]
async fn a_signal_lets_the_running_command_end() -> Tested {
    let server = FakeServer::start().await?;
    server.client()?.submit(Submit::new("q", "k")).await?;
    let directory = tempfile::tempdir()?;
    let running = directory.path().join("running");
    // A job whose command does not run yet would go back.
    let script = format!("touch {}; sleep 1", running.display());
    let working = Working::start(&server, &[], &script);
    wait_for_file(&running).await;
    working.signal("INT");
    assert_eq!(code(&working.end().await), 0);
    assert_eq!(server.seen().settled("complete"), ["k"]);
    Ok(())
}

#[tokio::test]
async fn a_second_signal_stops_the_command_and_gives_its_job_back() -> Tested {
    let server = FakeServer::start().await?;
    server.client()?.submit(Submit::new("q", "k")).await?;
    let working = Working::start(&server, &[], "sleep 600");
    server
        .until("the delivery", |seen| !seen.delivered.is_empty())
        .await;
    working.signal("TERM");
    server.until("the drain", |seen| seen.drains == 1).await;
    working.signal("TERM");
    assert_eq!(code(&working.end().await), 1);
    assert_eq!(server.seen().settled("release"), ["k"]);
    Ok(())
}

#[tokio::test]
async fn a_lost_lease_stops_the_whole_process_group() -> Tested {
    let server = FakeServer::start().await?;
    let directory = tempfile::tempdir()?;
    let pid = directory.path().join("pid");
    server.client()?.submit(Submit::new("q", "k")).await?;
    // It and its child both ignore SIGTERM.
    let script = format!(
        "trap '' TERM; sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait; wait",
        pid.display()
    );
    let working = Working::start(&server, &["--kill-after", "100ms"], &script);
    let child = wait_for_file(&pid).await;
    server.client()?.purge_queue("q").await?;
    wait_for_end(child.trim()).await;
    working.signal("TERM");
    assert_eq!(code(&working.end().await), 0);
    assert!(
        server.seen().settlements.is_empty(),
        "its result is dropped"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_worker_takes_its_commands_and_their_children_along() -> Tested {
    let server = FakeServer::start().await?;
    let directory = tempfile::tempdir()?;
    let pids = directory.path().join("pids");
    server.client()?.submit(Submit::new("q", "k")).await?;
    // It and its child both ignore SIGTERM.
    let script = format!(
        "trap '' TERM; sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait; wait",
        pids.display()
    );
    let working = Working::start(&server, &["--kill-after", "100ms"], &script);
    let pids = wait_for_file(&pids).await;
    let children = children_of(working.0.id());
    assert_eq!(children.len(), 2, "the command and its guard");
    working.signal("KILL");
    working.end().await;
    for pid in pids.split_whitespace() {
        wait_for_end(pid).await;
    }
    for child in children {
        wait_for_end(&child).await;
    }
    assert!(server.seen().settlements.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_command_that_cannot_be_started_ends_the_worker_and_costs_no_attempt() -> Tested {
    let server = FakeServer::start().await?;
    server.client()?.submit(Submit::new("q", "k")).await?;
    let output = run(&server, &["work", "q", "--", "/no/such/command"], "").await;
    assert_eq!(code(&output), 1);
    assert!(
        text(&output.stderr).contains("failed to start /no/such/command"),
        "{output:?}"
    );
    assert_eq!(server.outstanding("q", "k").map(|job| job.attempt), Some(1));
    Ok(())
}

/// Ends the test, and not only its patience, where something never comes.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(std::time::Duration::from_secs(20), coming).await {
        Ok(came) => came,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

async fn wait_for_file(path: &std::path::Path) -> String {
    polled("the file", || std::fs::read_to_string(path).ok()).await
}

/// The children of a process, by the system's word.
fn children_of(parent: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("a proc file system");
    let names = processes.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.into_string().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(&parent.to_string())
    })
    .collect()
}

/// A process has ended when it is gone or waits to be reaped.
async fn wait_for_end(pid: &str) {
    let stat = format!("/proc/{pid}/stat");
    polled("the process's end", || {
        match std::fs::read_to_string(&stat) {
            Ok(stat) => stat.contains(") Z ").then_some(()),
            Err(_) => Some(()),
        }
    })
    .await;
}

/// For what rings no bell: looks again and again, but not for ever.
async fn polled<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(10));
    for _ in 0..2_000 {
        ticks.tick().await;
        if let Some(found) = look() {
            return found;
        }
    }
    panic!("waited in vain: {what}")
}
