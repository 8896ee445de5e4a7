//! Cutting what one side sends into the pieces that the proxy holds or passes as a whole.

use std::io;

use tokio::{io::AsyncReadExt, net::tcp::ReadHalf};

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Whatever one read brings.
    Bytes,
    /// One HTTP/2 frame, so that the answer to a PING can go between two of them.
    Http2,
}

/// What a client of HTTP/2 sends before its first frame.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const HEADER: usize = 9;
const READ: usize = 16 * 1024;
const PING: u8 = 6;
const ACK: u8 = 1;

/// The pieces that one side sends.
pub(super) struct Pieces<'a> {
    from: ReadHalf<'a>,
    framing: Framing,
    preface_is_due: bool,
}

impl<'a> Pieces<'a> {
    pub(super) fn of_client(from: ReadHalf<'a>, framing: Framing) -> Self {
        Self {
            from,
            framing,
            preface_is_due: framing == Framing::Http2,
        }
    }

    pub(super) fn of_server(from: ReadHalf<'a>, framing: Framing) -> Self {
        Self {
            from,
            framing,
            preface_is_due: false,
        }
    }

    /// The next piece; an empty one is the end, however the sender came to it.
    pub(super) async fn next(&mut self) -> Vec<u8> {
        let piece = match self.framing {
            Framing::Bytes => self.bytes().await,
            Framing::Http2 if std::mem::take(&mut self.preface_is_due) => {
                self.exactly(PREFACE).await
            }
            Framing::Http2 => self.frame().await,
        };
        piece.unwrap_or_default()
    }

    async fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::with_capacity(READ);
        self.from.read_buf(&mut piece).await?;
        Ok(piece)
    }

    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut frame = self.exactly(HEADER).await?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        self.from
            .read_exact(extended(&mut frame, length as usize))
            .await?;
        Ok(frame)
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; length];
        self.from.read_exact(&mut piece).await?;
        Ok(piece)
    }
}

/// The new part of `piece`, which grows by `more` bytes.
fn extended(piece: &mut Vec<u8>, more: usize) -> &mut [u8] {
    let before = piece.len();
    piece.resize(before + more, 0);
    &mut piece[before..]
}

/// The answer to `frame`, if it is a PING that wants one.
pub(super) fn pong(frame: &[u8]) -> Option<Vec<u8>> {
    let is_ping = frame.len() == HEADER + 8 && frame[3] == PING && frame[4] & ACK == 0;
    is_ping.then(|| {
        let mut answer = frame.to_vec();
        answer[4] |= ACK;
        answer
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_is_answered_and_its_answer_is_not() {
        let ping = [0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let answer = pong(&ping).unwrap();
        assert_eq!(answer[4], ACK);
        assert_eq!(answer[HEADER..], ping[HEADER..]);
        assert_eq!(pong(&answer), None);
    }

    #[test]
    fn other_frames_are_no_pings() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        assert_eq!(pong(&settings), None);
    }
}
