//! A command for each job.

use super::*;

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
