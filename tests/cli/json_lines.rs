//! Many submits from JSON lines.

use super::*;

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
async fn a_line_that_is_too_long_is_not_held_and_spoils_no_other() -> Tested {
    let server = FakeServer::start().await?;
    let mut input = b"{\"key\": \"a\"}\n{\"key\": \"long\", \"payload\": \"".to_vec();
    input.resize(input.len() + (17 << 20), b'x');
    input.extend_from_slice(b"\"}\n{\"key\": \"b\"}\n");
    let args = ["submit", "q", "--jsonl", "-"];
    let output = within("the end of the input", run(&server, &args, input)).await;
    let told = text(&output.stderr);
    assert!(
        told.contains("line 2: it has more than 16777216 bytes"),
        "{told}"
    );
    assert_eq!((code(&output), server.seen().submits.len()), (5, 2));
    Ok(())
}
