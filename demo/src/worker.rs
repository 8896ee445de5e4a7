//! A worker process: reads and hashes the source of one package a job.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use keywork_sdk::{
    Client, Context, Job, Worker,
    worker::{HandlerError, HandlerResult},
};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::{
    QUEUE,
    record::{self, Digest, Record, Recorder, What},
};

/// How many packages are hashed at once.
const AT_ONCE: usize = 8;

/// Works until it is told to stop.
pub(crate) async fn run(name: &str, server: &str, records: &Path) -> ExitCode {
    match work(name, server, records).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn work(name: &str, server: &str, records: &Path) -> Result<(), HandlerError> {
    let recorder = Arc::new(Recorder::open(records)?);
    let name: Arc<str> = name.into();
    let worker = Worker::builder(Client::new(server)?, [QUEUE])
        .concurrency(AT_ONCE)
        .worker_id(format!("worker-{name}"))
        .build_fn(move |context, job| {
            let (recorder, name) = (Arc::clone(&recorder), Arc::clone(&name));
            async move {
                // Hashing blocks, and heartbeats do not care: they have a thread of their own.
                spawn_blocking(move || handle(&recorder, &name, &context, &job)).await?
            }
        });
    Ok(worker.run().await?)
}

fn handle(recorder: &Recorder, worker: &str, context: &Context, job: &Job) -> HandlerResult {
    let note = |what| -> io::Result<()> {
        recorder.write(&Record {
            at: record::now()?,
            worker: worker.into(),
            key: job.key.clone(),
            job: job.id.clone(),
            attempt: job.attempt,
            fencing_number: job.fencing_number,
            what,
        })
    };
    note(What::Start)?;
    let folder = PathBuf::from(std::str::from_utf8(&job.payload)?);
    match hash(&folder, context)? {
        Some(digest) => Ok(note(What::End(digest))?),
        None => {
            note(What::GaveUp)?;
            Err("told to stop".into())
        }
    }
}

/// Hashes names and contents of all files in a folder, in order. `None`: told to stop.
fn hash(folder: &Path, context: &Context) -> io::Result<Option<Digest>> {
    let (mut hash, mut files, mut bytes) = (Sha256::new(), 0, 0);
    for path in all_files(folder)? {
        if context.is_cancelled() {
            return Ok(None);
        }
        let name = path.strip_prefix(folder).unwrap_or(&path);
        hash.update(name.as_os_str().as_encoded_bytes());
        let content = fs::read(&path)?;
        hash.update(&content);
        files += 1;
        bytes += u64::try_from(content.len()).unwrap_or(u64::MAX);
    }
    let sha256 = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    Ok(Some(Digest {
        files,
        bytes,
        sha256,
    }))
}

fn all_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
