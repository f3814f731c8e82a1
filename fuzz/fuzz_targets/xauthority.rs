//! X authority files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::host::xauth::records;

fuzz_target!(|bytes: &[u8]| {
    let (records, whole) = records(bytes);
    let length = |record: &whoseenv::host::xauth::Record<'_>| 10 + record.address.len() + record.number.len() + record.protocol.len() + record.data.len();
    let understood: usize = records.iter().map(length).sum();
    assert!(if whole { understood == bytes.len() } else { understood < bytes.len() });
    for record in records {
        let _ = record.fits(b"host", None, 10);
    }
});
