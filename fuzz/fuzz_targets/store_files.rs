//! Headers of databases, WALs and journals, frames of WALs; and whole databases, opened.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::report::Progress;
use whoseenv::store::{Opened, Tables, beside, wal};

fuzz_target!(|bytes: &[u8]| {
    let _ = (beside::header(bytes), beside::salts(bytes), beside::hot(bytes));
    let _ = wal::frames(bytes);
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("store.db");
    whoseenv_fuzz::write(&path, bytes);
    if let Ok(opened) = Opened::open(&path, &Progress::hidden()) {
        let _ = Tables::read(&opened.conn).map(|tables| tables.generation());
    }
});
