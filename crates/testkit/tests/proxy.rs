//! The proxy of the test kit fails as its modes say.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{io::ErrorKind, time::Duration};

use keywork_testkit::{FaultProxy, Mode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

const SHORT: Duration = Duration::from_millis(150);
const SOON: Duration = Duration::from_secs(5);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PONG: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// A proxy, and the two ends of one connection through it.
struct Line {
    proxy: FaultProxy,
    client: TcpStream,
    server: TcpStream,
}

async fn line() -> Line {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap().to_string()).await;
    connected(proxy, &listener).await
}

async fn http2_line() -> Line {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start_http2(listener.local_addr().unwrap().to_string()).await;
    connected(proxy, &listener).await
}

async fn connected(proxy: FaultProxy, listener: &TcpListener) -> Line {
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    let (server, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    Line {
        proxy,
        client,
        server,
    }
}

async fn send(to: &mut TcpStream, bytes: &[u8]) {
    to.write_all(bytes).await.unwrap();
}

async fn receive(from: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    timeout(SOON, from.read_exact(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    bytes
}

async fn receives_nothing(from: &mut TcpStream) -> bool {
    timeout(SHORT, from.read_u8()).await.is_err()
}

#[tokio::test]
async fn it_passes_bytes_and_ends_both_ways() {
    let mut line = line().await;
    send(&mut line.client, b"there").await;
    assert_eq!(receive(&mut line.server, 5).await, b"there");
    send(&mut line.server, b"back").await;
    assert_eq!(receive(&mut line.client, 4).await, b"back");
    drop(line.server);
    assert_eq!(
        line.client.read_u8().await.unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
}

#[tokio::test]
async fn it_delays() {
    let mut line = line().await;
    line.proxy.set(Mode::Delay(SHORT));
    let start = Instant::now();
    send(&mut line.client, b"x").await;
    receive(&mut line.server, 1).await;
    assert!(start.elapsed() >= SHORT);
}

#[tokio::test]
async fn a_black_hole_passes_nothing_and_closes_nothing_until_it_heals() {
    let mut line = line().await;
    line.proxy.set(Mode::BlackHole);
    send(&mut line.client, b"there").await;
    send(&mut line.server, b"back").await;
    assert!(receives_nothing(&mut line.server).await);
    assert!(receives_nothing(&mut line.client).await);
    line.proxy.set(Mode::Pass);
    assert_eq!(receive(&mut line.server, 5).await, b"there");
    assert_eq!(receive(&mut line.client, 4).await, b"back");
}

#[tokio::test]
async fn it_holds_what_the_server_sends() {
    let mut line = line().await;
    line.proxy.set(Mode::HoldFromServer);
    send(&mut line.server, b"back").await;
    send(&mut line.client, b"there").await;
    assert_eq!(receive(&mut line.server, 5).await, b"there");
    assert!(receives_nothing(&mut line.client).await);
    line.proxy.set(Mode::Pass);
    assert_eq!(receive(&mut line.client, 4).await, b"back");
}

#[tokio::test]
async fn it_resets() {
    let mut line = line().await;
    send(&mut line.client, b"x").await;
    receive(&mut line.server, 1).await;
    line.proxy.set(Mode::Reset);
    for end in [&mut line.client, &mut line.server] {
        let ended = timeout(SOON, end.read_u8()).await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn it_answers_pings_and_passes_no_data() {
    let mut line = http2_line().await;
    send(&mut line.client, PREFACE).await;
    send(&mut line.client, &PING).await;
    assert_eq!(receive(&mut line.server, PREFACE.len()).await, PREFACE);
    assert_eq!(receive(&mut line.server, PING.len()).await, PING);

    line.proxy.set(Mode::AnswerPings);
    let data = [0, 0, 1, 0, 0, 0, 0, 0, 1, 42];
    send(&mut line.client, &data).await;
    send(&mut line.client, &PING).await;
    assert_eq!(receive(&mut line.client, PONG.len()).await, PONG);
    assert!(receives_nothing(&mut line.server).await);

    line.proxy.set(Mode::Pass);
    assert_eq!(receive(&mut line.server, data.len()).await, data);
}
