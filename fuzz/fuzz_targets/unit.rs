//! systemd unit files, drop-ins and environment files: the bytes are all three.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::origin::unit::{Manager, declared};

fuzz_target!(|bytes: &[u8]| {
    let host = whoseenv_fuzz::machine(&[
        ("/etc/systemd/system/fuzz.service", b"[Service]\nEnvironmentFile=-/etc/fuzz.env\nEnvironment=A=1\n"),
        ("/etc/systemd/system/fuzz.service.d/10.conf", bytes),
        ("/etc/fuzz.env", bytes),
        ("/etc/systemd/system/other.service", bytes),
    ]);
    for unit in ["fuzz.service", "other.service"] {
        let declared = declared(&host, unit, &Manager::System).expect("the file is there");
        for name in declared.names() {
            if let Some(name) = name.as_str() {
                let _ = declared.columns(name);
            }
        }
    }
});
