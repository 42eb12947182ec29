//! A collector: takes batches of many devices, and writes them into one database of PostgreSQL, many in a transaction.
//!
//! # Why
//! A connection to PostgreSQL is a process there, and each batch by itself is a transaction with a sync. A fleet would need thousands of both. Devices also
//! need no account of the database: they have a token or a certificate.
//!
//! # What it promises
//! 1. **Once, in order.** The position of each device moves in the transaction of its rows, as it does for a device that delivers by itself. An answer follows
//!    the commit. Nothing is kept that a kill could lose.
//! 2. **A copy of a device is refused.** The guard on source, epoch, number and token is PostgreSQL's row of that source.
//! 3. **No device harms another.** A batch that the database refuses is found by taking each alone. Wrong bytes end their connection, with a line that says why.
//! 4. **Bounded memory.** What waits has a budget, and beyond it nothing is read: devices wait. A batch that is too large for one part waits in a file.
//!
//! # Invariants
//! 1. Of a source the newest connection counts. What an older one has read, and not yet queued, is dropped, so that a position that was
//!    asked for stays true until the one that has asked goes on.
//! 2. One writer takes what is queued in its order.
//!
//! | file | decides |
//! |---|---|
//! | `wire` | frames, and answers |
//! | `part` | batches as they travel |
//! | [`client`](Collector) | the side of a device: a destination |
//! | [`server`](Server) | who may come, and when it ends |
//! | `connection` | one device's connection |
//! | `spool` | batches of several parts |
//! | `writer` | what goes into one transaction |

mod client;
mod connection;
mod part;
mod server;
mod spool;
mod wire;
mod writer;

pub use crate::line::Line;
pub use client::Collector;
pub use server::{Server, Settings};

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Fewest characters of a token.
pub const LEAST_TOKEN: usize = 16;

/// Says what is wrong with a token; nothing of the token is in it.
pub fn check_token(token: &str) -> Result<(), String> {
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    match token.len() {
        LEAST_TOKEN..=512 if is_plain => Ok(()),
        _ => Err(format!(
            "the token is to have {LEAST_TOKEN} to 512 letters, digits and signs: `openssl rand -hex 32` makes one"
        )),
    }
}
