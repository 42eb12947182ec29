//! A server of NATS for a test: on a local address, with files of its own, ended with the test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub struct Server {
    program: PathBuf,
    child: Child,
    pub port: u16,
    files: tempfile::TempDir,
}

/// The first version that can sync each message (`sync_interval: always`).
const OLDEST: [u32; 2] = [2, 10];

/// `nats-server`, by LITEFOOT_NATS or on the PATH.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("LITEFOOT_NATS").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&paths).map(|folder| folder.join("nats-server"));
    named.into_iter().chain(on_path).find(|file| file.is_file())
}

/// Of `nats-server: v2.10.27`.
fn version(said: &str) -> Option<[u32; 2]> {
    let mut numbers = said.trim().rsplit_once('v')?.1.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

impl Server {
    /// Starts a server with some more lines of configuration; `None`, with a message, where there is none.
    pub fn start(more: &str) -> Option<Server> {
        let Some(program) = program() else {
            println!("skipped: nats-server is not installed (LITEFOOT_NATS may name it)");
            return None;
        };
        let said = Command::new(&program).arg("--version").output().unwrap().stdout;
        let said = String::from_utf8_lossy(&said);
        if version(&said).is_none_or(|version| version < OLDEST) {
            println!("skipped: {} is older than 2.10: {}", program.display(), said.trim());
            return None;
        }
        let files = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // What is acknowledged is on the disk.
        let settings = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", sync_interval: always }}\n{more}\n",
            files.path().display()
        );
        std::fs::write(files.path().join("settings"), settings).unwrap();
        let child = run(&program, files.path());
        let server = Server { program, child, port, files };
        server.wait();
        Some(server)
    }

    pub fn url(&self, port: u16) -> String {
        format!("nats://127.0.0.1:{port}/rows")
    }

    /// Kills it, and starts it again.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = run(&self.program, self.files.path());
        self.wait();
    }

    fn wait(&self) {
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not answer");
    }
}

fn run(program: &Path, files: &Path) -> Child {
    let mut command = Command::new(program);
    command.arg("-c").arg(files.join("settings")).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
