//! What `serve` refuses.

use super::*;

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
