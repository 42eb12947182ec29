//! The collector: who may come, how much may wait, and when it ends.

use super::Stream;
use super::check_token;
#[cfg(feature = "tls")]
use super::connection::farewell;
use super::connection::serve;
use super::writer::{Job, Say, Writer};
use crate::postgres::Session;
use crate::{Error, Result};
use futures_util::future::{Either, select};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// Bytes of batches that may wait; one batch may always wait.
const BUDGET_BYTES: usize = 64 << 20;
/// Batches that may wait.
const QUEUE: usize = 4096;
/// Batches that are decoded at one time.
const DECODING: usize = 2;
/// Frames of more than some kilobytes that are read at one time.
const LARGE_FRAMES: usize = 4;
/// Batches of several parts at one time.
const SPOOLS: usize = 16;
/// A pause where the system has no more descriptors.
const FULL: Duration = Duration::from_millis(100);
#[cfg(feature = "tls")]
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What a collector is to do.
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// `postgres://user@host/database`.
    pub url: String,
    /// The password for it.
    pub password: Option<String>,
    /// The schema that tables are in.
    pub schema: String,
    /// What devices have to know; `None` where their certificates are enough.
    pub token: Option<String>,
    /// The files of the certificate and of its key, both PEM; without them lines are not encrypted.
    pub certificate: Option<(std::path::PathBuf, std::path::PathBuf)>,
    /// The file of the authorities, one of which has signed each device's certificate; without it devices need none.
    pub client_authorities: Option<std::path::PathBuf>,
    /// Most connections; further ones wait.
    pub connections: usize,
    /// Takes lines for people.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Connections by their source: a number, and a way to tell that a newer one is there.
type Newest = HashMap<[u8; 16], (u64, Arc<Notify>)>;

/// What all connections share.
pub(super) struct Shared {
    pub token: Option<String>,
    pub queue: mpsc::Sender<Job>,
    closing: watch::Receiver<bool>,
    pub say: Say,
    pub decoding: Arc<Semaphore>,
    pub large_frames: Arc<Semaphore>,
    pub spools: Arc<Semaphore>,
    budget: Arc<Semaphore>,
    numbers: AtomicU64,
    /// The newest connection of each source that has one.
    newest: Mutex<Newest>,
}

impl Shared {
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits until so many bytes may wait.
    pub async fn budget(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kilobytes = bytes.min(BUDGET_BYTES).div_ceil(1 << 10);
        self.budget.clone().acquire_many_owned(u32::try_from(kilobytes).unwrap_or(u32::MAX)).await.ok()
    }

    pub fn claim(&self, source: [u8; 16], number: u64, replaced: Arc<Notify>) {
        let older = self.newest().insert(source, (number, replaced));
        if let Some((_, older)) = older {
            older.notify_one();
        }
    }

    pub fn release(&self, source: &[u8; 16], number: u64) {
        let mut newest = self.newest();
        if newest.get(source).is_some_and(|(of, _)| *of == number) {
            newest.remove(source);
        }
    }

    /// Queues a job, unless a newer connection of the source is there: what that one asks for next comes behind it.
    pub fn queue_if_newest(
        &self,
        source: &[u8; 16],
        number: u64,
        place: mpsc::Permit<'_, Job>,
        job: Job,
    ) -> bool {
        let newest = self.newest();
        let is_newest = newest.get(source).is_some_and(|(of, _)| *of == number);
        if is_newest {
            place.send(job);
        }
        is_newest
    }

    /// Waits until the collector ends.
    pub async fn closed(&self) {
        // Where nobody could say so any more, it has.
        let _ = self.closing.clone().wait_for(|is_closing| *is_closing).await;
    }

    fn newest(&self) -> std::sync::MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running collector.
pub struct Server {
    address: SocketAddr,
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a collector. A database that does not answer yet is waited for; one that refuses is an error.
    ///
    /// # Errors
    /// The address, the certificate, the token or the database cannot be used.
    pub fn start(settings: Settings) -> Result<Server> {
        let place = settings.listen.to_string();
        let refused = |why: String| Error::Refused { place: place.clone(), why };
        match &settings.token {
            Some(token) => check_token(token).map_err(refused)?,
            None if settings.client_authorities.is_some() => {}
            None => return Err(refused("devices have to show a token or a certificate".to_owned())),
        }
        let lines = Lines::new(&settings)?;
        let mut session = Session::new(&settings.url, "litefoot collect")?;
        session.set_password(settings.password.as_deref());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| refused(error.to_string()))?;
        let listener = runtime
            .block_on(TcpListener::bind(settings.listen))
            .map_err(|error| refused(format!("cannot listen: {error}")))?;
        let address = listener.local_addr().map_err(|error| refused(error.to_string()))?;
        match runtime.block_on(session.converse(async |_| Ok(()))) {
            Err(error) if error.is_transient() => (settings.say)(&error.to_string()),
            first => first?,
        }
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (closing, is_closing) = watch::channel(false);
        let writer = Writer { session, schema: settings.schema, queue: jobs, say: settings.say.clone() };
        let shared = Arc::new(Shared {
            token: settings.token,
            queue,
            closing: is_closing,
            say: settings.say,
            decoding: Arc::new(Semaphore::new(DECODING)),
            large_frames: Arc::new(Semaphore::new(LARGE_FRAMES)),
            spools: Arc::new(Semaphore::new(SPOOLS)),
            budget: Arc::new(Semaphore::new(BUDGET_BYTES >> 10)),
            numbers: AtomicU64::new(1),
            newest: Mutex::default(),
        });
        let connections = Arc::new(Semaphore::new(settings.connections.max(1)));
        let thread = std::thread::spawn(move || {
            // The writer's own: its connection to the database is driven while it works.
            let writing = std::thread::spawn(move || {
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build();
                if let Ok(own) = own {
                    own.block_on(writer.run());
                }
            });
            runtime.block_on(accept(listener, lines, shared, connections));
            let _ = writing.join();
        });
        Ok(Server { address, closing, thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True once it has ended by itself, which it does only where its own thread is lost.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it: what was taken is written and answered, and nothing new is taken.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.closing.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes connections until the end is asked for, and waits for those that there are.
async fn accept(listener: TcpListener, lines: Lines, shared: Arc<Shared>, connections: Arc<Semaphore>) {
    let most = connections.available_permits();
    let lines = Arc::new(lines);
    loop {
        let next = pin!(async {
            let permit = connections.clone().acquire_owned().await;
            (listener.accept().await, permit)
        });
        let (stream, peer, permit) = match select(next, pin!(shared.closed())).await {
            Either::Right(_) => break,
            Either::Left(((Ok((stream, peer)), Ok(permit)), _)) => (stream, peer.to_string(), permit),
            Either::Left(((Err(error), _), _)) => {
                (shared.say)(&format!("no connection can be taken: {error}"));
                tokio::time::sleep(FULL).await;
                continue;
            }
            Either::Left(_) => break,
        };
        let (shared, lines) = (shared.clone(), lines.clone());
        tokio::spawn(async move {
            let opened = match select(pin!(lines.open(stream)), pin!(shared.closed())).await {
                Either::Left((opened, _)) => Some(opened),
                Either::Right(_) => None,
            };
            match opened {
                Some(Ok((stream, subject))) => serve(shared, stream, peer, subject).await,
                Some(Err(why)) => (shared.say)(&format!("{peer}: {why}")),
                None => {}
            }
            drop(permit);
        });
    }
    drop((listener, shared));
    // Each connection answers what it has in hand.
    let _ = connections.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await;
}

/// A line, and the subject of the other side's certificate.
type Opened = (Box<dyn Stream>, Option<Vec<u8>>);

/// How lines begin: in plain text, or encrypted.
struct Lines {
    #[cfg(feature = "tls")]
    acceptor: Option<tokio_rustls::TlsAcceptor>,
}

impl Lines {
    #[cfg(feature = "tls")]
    fn new(settings: &Settings) -> Result<Lines> {
        let authorities = settings.client_authorities.as_deref();
        let acceptor = match (&settings.certificate, authorities) {
            (Some(own), _) => Some(crate::tls::acceptor(own, authorities)?),
            (None, None) => None,
            (None, Some(path)) => {
                return Err(Error::local(
                    path,
                    "certificates of devices come over lines of TLS: the collector needs its own, too",
                ));
            }
        };
        Ok(Lines { acceptor })
    }

    #[cfg(not(feature = "tls"))]
    fn new(settings: &Settings) -> Result<Lines> {
        let certificate = settings.certificate.as_ref().map(|(certificate, _)| certificate);
        match certificate.or(settings.client_authorities.as_ref()) {
            None => Ok(Lines {}),
            Some(file) => Err(Error::local(file, "this program was built without TLS")),
        }
    }

    /// Opens a line; answers whose it is, where the other side has shown a certificate.
    async fn open(&self, stream: TcpStream) -> std::result::Result<Opened, String> {
        // Answers are small, and waited for.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        #[cfg(feature = "tls")]
        if let Some(acceptor) = &self.acceptor {
            let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream).into_fallible()).await;
            let shaken = shaken.map_err(|_| "no TLS handshake came".to_owned())?;
            return match shaken {
                Ok(stream) => {
                    let subject = crate::tls::subject(stream.get_ref().1);
                    Ok((Box::new(stream), subject))
                }
                Err((error, mut stream)) => {
                    let why = crate::tls::wrong_certificate(&error);
                    // The device hears of it.
                    farewell(&mut stream).await;
                    Err(why.map_or_else(
                        || format!("no TLS handshake: {error}"),
                        |why| format!("refused: {why}"),
                    ))
                }
            };
        }
        Ok((Box::new(stream), None))
    }
}
