//! Moving pieces from one side to the other as the mode allows.

use std::{future::pending, io};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, tcp::WriteHalf},
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    Mode,
    frames::{Framing, Pieces, pong},
};

/// How many pieces a direction holds before its sender is held up too.
const QUEUE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// A piece on its way; an empty one is the sender's end.
struct Piece {
    read_at: Instant,
    bytes: Vec<u8>,
}

/// Relays until both sides have ended, or one cannot be written to.
pub(super) async fn both_ways(
    client: &mut TcpStream,
    server: &mut TcpStream,
    framing: Framing,
    mode: watch::Receiver<Mode>,
) -> io::Result<()> {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let (up, up_queue) = mpsc::channel(QUEUE);
    let (down, down_queue) = mpsc::channel(QUEUE);
    let (client_pongs, client_pongs_queue) = mpsc::channel(QUEUE);
    let (server_pongs, server_pongs_queue) = mpsc::channel(QUEUE);
    let to_server = Outlet {
        direction: Direction::ToServer,
        queue: up_queue,
        pongs: server_pongs_queue,
        mode: mode.clone(),
        to: to_server,
    };
    let to_client = Outlet {
        direction: Direction::ToClient,
        queue: down_queue,
        pongs: client_pongs_queue,
        mode: mode.clone(),
        to: to_client,
    };
    let from_client = Pieces::of_client(from_client, framing);
    let from_server = Pieces::of_server(from_server, framing);
    tokio::try_join!(
        read(from_client, up, client_pongs, mode.clone()),
        read(from_server, down, server_pongs, mode),
        to_server.write(),
        to_client.write(),
    )?;
    Ok(())
}

/// Reads all that a side sends into `queue`; while the proxy answers PINGs, their answers into `pongs`.
async fn read(
    mut from: Pieces<'_>,
    queue: mpsc::Sender<Piece>,
    pongs: mpsc::Sender<Vec<u8>>,
    mode: watch::Receiver<Mode>,
) -> io::Result<()> {
    loop {
        let bytes = from.next().await;
        let is_last = bytes.is_empty();
        let answers = *mode.borrow() == Mode::AnswerPings;
        let sent = match pong(&bytes) {
            Some(pong) if answers => pongs.send(pong).await.is_ok(),
            Some(_) | None => queue
                .send(Piece {
                    read_at: Instant::now(),
                    bytes,
                })
                .await
                .is_ok(),
        };
        if is_last || !sent {
            return Ok(());
        }
    }
}

/// Where the pieces of one direction come out.
struct Outlet<'a> {
    direction: Direction,
    queue: mpsc::Receiver<Piece>,
    pongs: mpsc::Receiver<Vec<u8>>,
    mode: watch::Receiver<Mode>,
    to: WriteHalf<'a>,
}

impl Outlet<'_> {
    async fn write(mut self) -> io::Result<()> {
        let mut held: Option<Piece> = None;
        loop {
            let read_at = held
                .as_ref()
                .map_or_else(Instant::now, |piece| piece.read_at);
            let bytes = tokio::select! {
                biased;
                Some(pong) = self.pongs.recv() => pong,
                next = self.queue.recv(), if held.is_none() => {
                    let Some(piece) = next else { return Ok(()) };
                    held = Some(piece);
                    continue;
                }
                () = may_pass(&mut self.mode, self.direction, read_at), if held.is_some() => {
                    held.take().map(|piece| piece.bytes).unwrap_or_default()
                }
            };
            if bytes.is_empty() {
                return self.to.shutdown().await;
            }
            self.to.write_all(&bytes).await?;
        }
    }
}

/// Waits until what was read at `read_at` may go on.
async fn may_pass(mode: &mut watch::Receiver<Mode>, direction: Direction, read_at: Instant) {
    loop {
        let now = *mode.borrow_and_update();
        let due = match (now, direction) {
            (Mode::Pass, _) | (Mode::HoldFromServer, Direction::ToServer) => return,
            (Mode::Delay(delay), _) => Some(read_at + delay),
            (Mode::HoldFromServer, Direction::ToClient)
            | (Mode::BlackHole | Mode::AnswerPings | Mode::Reset, _) => None,
        };
        tokio::select! {
            () = at(due) => return,
            changed = mode.changed() => if changed.is_err() { pending::<()>().await },
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
