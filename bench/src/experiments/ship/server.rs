//! A server of PostgreSQL of the experiment's own: on a local address, with files in a directory, ended with the experiment.

use super::failed;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// The longest that a start may take.
const START: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(20);

/// A server that runs, or is about to run again.
pub(super) struct Server {
    programs: PathBuf,
    data: PathBuf,
    /// False where processes die, and never the machine.
    syncs: bool,
    child: Child,
    pub port: u16,
    runtime: Runtime,
}

/// The folder with `postgres` and `initdb`: that of `LITEFOOT_POSTGRES`, of the search path, or of the system's package.
fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("LITEFOOT_POSTGRES").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin"));
    let mut folders = named.into_iter().chain(std::env::split_paths(&paths)).chain(installed);
    folders.find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file())
}

/// PostgreSQL does not run as root: it gets another number in a namespace of its own.
fn command(program: &Path) -> Command {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-user=1000"]).arg(program);
    command
}

pub(super) fn wrong(error: &dyn std::fmt::Display) -> Error {
    Error::Peer { name: "PostgreSQL".to_owned(), what: error.to_string() }
}

impl Server {
    /// Makes a server in a directory, and starts it.
    pub(super) fn start(directory: &Path, syncs: bool) -> Result<Server> {
        let programs = programs().ok_or_else(|| {
            Error::Missing("PostgreSQL (LITEFOOT_POSTGRES may name the folder of its programs)".to_owned())
        })?;
        let data = directory.join("postgres");
        let made = command(&programs.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["-U", "litefoot", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"])
            .output()
            .map_err(|error| failed(&programs, error))?;
        if !made.status.success() {
            return Err(wrong(&String::from_utf8_lossy(&made.stderr)));
        }
        let port = super::free_port()?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(directory, error))?;
        let child = serve(&programs, &data, port, syncs)?;
        let mut server = Server { programs, data, syncs, child, port, runtime };
        server.wait()?;
        Ok(server)
    }

    /// Kills it with SIGKILL, and starts it again.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.end(libc::SIGKILL);
        self.child = serve(&self.programs, &self.data, self.port, self.syncs)?;
        self.wait()
    }

    /// Kills a process that talks with a shipper or a collector: all others end, and the server recovers. `false` where there is none.
    pub(super) fn kill_backend(&mut self) -> Result<bool> {
        let select = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'litefoot %' ORDER BY random() LIMIT 1";
        let Some(pid) = self.ask(async |client| Ok(client.query_opt(select, &[]).await?))? else {
            return Ok(false);
        };
        let pid: i32 = pid.try_get(0).map_err(|error| wrong(&error))?;
        // SAFETY: the process is one of the server that this experiment has started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        Ok(true)
    }

    pub(super) fn url(&self, port: u16) -> String {
        format!("postgres://litefoot@127.0.0.1:{port}/postgres")
    }

    /// Waits until the server answers. Should it have given up, since processes of the killed one were alive, it starts again.
    pub(super) fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < START {
            match self.ask(async |client| client.simple_query("SELECT 1").await) {
                Ok(_) => return Ok(()),
                Err(error) => last = error.to_string(),
            }
            if self.child.try_wait().map_err(|error| wrong(&error))?.is_some() {
                self.child = serve(&self.programs, &self.data, self.port, self.syncs)?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = std::fs::read_to_string(log_of(&self.data)).unwrap_or_default();
        let said: Vec<&str> = said.lines().rev().take(3).collect();
        Err(wrong(&format!(
            "it does not answer within {} s: {last}; it has said: {}",
            START.as_secs(),
            said.join("; ")
        )))
    }

    /// A conversation over a connection of its own.
    pub(super) fn ask<T>(
        &self,
        talk: impl AsyncFnOnce(&Client) -> std::result::Result<T, tokio_postgres::Error>,
    ) -> Result<T> {
        let url = self.url(self.port);
        let conversation = async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(connection);
            talk(&client).await
        };
        let outcome = self.runtime.block_on(async { tokio::time::timeout(ANSWER, conversation).await });
        outcome.map_err(|error| wrong(&error))?.map_err(|error| {
            let said = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
            wrong(&said)
        })
    }

    /// Rows as text, a column after the other.
    pub(super) fn rows(&self, select: &str) -> Result<Vec<String>> {
        self.ask(async |client| {
            client.query(select, &[]).await?.iter().map(|row| row.try_get::<_, String>(0)).collect()
        })
    }

    /// Listens to what triggers say, with the time when it was heard. The listener ends with the server.
    pub(super) fn listen(&self, channel_name: &str) -> Result<Receiver<(String, u64)>> {
        let (url, listen) = (self.url(self.port), format!("LISTEN {channel_name}"));
        let (sender, heard) = channel();
        let (ready_sender, ready) = channel();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| wrong(&error))?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.ok()?;
                let talk = tokio::spawn(async move {
                    while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await
                    {
                        if let AsyncMessage::Notification(said) = message
                            && sender.send((said.payload().to_owned(), super::now_ns())).is_err()
                        {
                            break;
                        }
                    }
                });
                client.batch_execute(&listen).await.ok()?;
                let _ = ready_sender.send(());
                talk.await.ok()
            })
        });
        ready.recv_timeout(START).map_err(|error| wrong(&error))?;
        Ok(heard)
    }

    fn end(&mut self, signal: i32) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // SAFETY: the process is a child that was not waited for.
            unsafe { libc::kill(pid, signal) };
        }
        let _ = self.child.wait();
    }
}

fn serve(programs: &Path, data: &Path, port: u16, syncs: bool) -> Result<Child> {
    let log = log_of(data);
    let said = std::fs::File::options().create(true).append(true).open(&log);
    let said = said.map_err(|error| failed(&log, error))?;
    let fsync = if syncs { "fsync=on" } else { "fsync=off" };
    let settings = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "shared_buffers=16MB",
        "log_min_messages=fatal",
        fsync,
    ];
    command(&programs.join("postgres"))
        .arg("-D")
        .arg(data)
        .args(["-p", &port.to_string()])
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .map_err(|error| failed(programs, error))
}

/// What the server says, beside its files.
fn log_of(data: &Path) -> PathBuf {
    data.with_extension("log")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(libc::SIGINT);
    }
}
