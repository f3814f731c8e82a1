//! Operations against the contracts that the hosts give of themselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::made::bundle;
use crate::run::{ran, run, whoseenv, write};
use crate::world::peers;

/// A host that serves, in a home of its own.
struct Serving {
    child: Child,
    url: String,
    password: Option<String>,
    _home: tempfile::TempDir,
}

impl Serving {
    fn start(program: &Path) -> Serving {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["serve", "--port", "0"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path());
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (mut url, mut password) = (None, None);
        let until = Instant::now() + Duration::from_secs(60);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            url = line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned).or(url);
            password = line.strip_prefix("server password ").map(str::to_owned).or(password);
            // The preview says its password behind its address, 1.x has none.
            if url.is_some() && (password.is_some() || line.starts_with("opencode server")) || Instant::now() > until {
                break;
            }
        }
        Serving { child, url: url.expect("it says where it listens"), password, _home: home }
    }

    fn against(&self, program: &Path, path: &str) -> Value {
        let mut command = whoseenv(&["binary", "ops", "--json", "--against", &format!("{}{path}", self.url)]);
        command.arg(program);
        if let Some(password) = &self.password {
            command.env("WHOSEENV_SERVER_PASSWORD", password);
        }
        ran(&mut command).json()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_previews_operations_are_those_of_its_own_contract() {
    let program = need!(peers::opencode_preview());
    let serving = Serving::start(&program);
    let found = serving.against(&program, "/openapi.json");
    let against = &found["data"]["against"];
    assert_eq!((&found["status"], &against["listed"], &against["same"]), (&json!("ok"), &json!(112), &json!(112)), "{against}");
    assert_eq!((&against["missing"], &against["extra"], &against["changed"]), (&json!([]), &json!([]), &json!([])));
    // The six whose path is built from a constant.
    let operations = found["data"]["operations"].as_array().unwrap();
    for (method, path) in [
        ("GET", "/api/project"),
        ("GET", "/api/project/current"),
        ("GET", "/api/project/:projectID/directories"),
        ("POST", "/experimental/project/:projectID/copy"),
        ("DELETE", "/experimental/project/:projectID/copy"),
        ("POST", "/experimental/project/:projectID/copy/refresh"),
    ] {
        assert!(operations.iter().any(|one| one["method"] == method && one["path"] == path), "{method} {path}");
    }
    // Each stands where it is said to stand.
    let file = std::fs::File::open(&program).unwrap();
    for operation in operations {
        let mut bytes = vec![0; 160];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, operation["offset"].as_u64().unwrap()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(&format!("(\"{}\",", operation["id"].as_str().unwrap())), "{operation}: {text}");
    }
}

#[test]
fn the_operations_of_1_18_34_are_those_of_its_own_contract() {
    let program = need!(peers::opencode_v1());
    let serving = Serving::start(&program);
    let found = serving.against(&program, "/doc");
    let against = &found["data"]["against"];
    assert_eq!((&against["extra"], &against["changed"]), (&json!([]), &json!([])), "none is false");
    let (listed, same) = (against["listed"].as_u64().unwrap(), against["same"].as_u64().unwrap());
    assert!(listed >= 180 && same * 100 >= listed * 95, "{same} of {listed}");
}

/// Before 1.4 the routes are chains, mounted in each other: every one of them, and none that is not there.
#[test]
fn the_operations_of_older_releases_are_those_of_their_own_contracts() {
    for version in ["1.2.1", "1.2.27", "1.3.2"] {
        let program = need!(peers::opencode(version));
        let serving = Serving::start(&program);
        let found = serving.against(&program, "/doc");
        let against = &found["data"]["against"];
        assert_eq!((&against["extra"], &against["changed"]), (&json!([]), &json!([])), "{version}: none is false");
        let (listed, same) = (against["listed"].as_u64().unwrap(), against["same"].as_u64().unwrap());
        assert!(listed >= 90 && same * 100 >= listed * 95, "{version}: {same} of {listed}");
    }
}

/// What `grep -w` finds in the bundle did not go.
#[test]
fn a_variable_that_came_or_went_is_nowhere_in_the_other_bundle() {
    let (v1, preview) = (need!(peers::opencode_v1()), need!(peers::opencode_preview()));
    need!(crate::world::need::tool("readelf", "binutils"));
    let found = run(&["binary", "diff", v1.to_str().unwrap(), preview.to_str().unwrap(), "--json"]).json();
    let dir = tempfile::tempdir().unwrap();
    for (names, other) in [("variables_went", &preview), ("variables_came", &v1)] {
        let said = Command::new("readelf").args(["-SW"]).arg(other).output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        let row: Vec<&str> = said.lines().find_map(|line| line.split_once("] .bun ")).unwrap().1.split_whitespace().collect();
        let [start, bytes] = [row[2], row[3]].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut section = vec![0; bytes as usize];
        std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open(other).unwrap(), &mut section, start).unwrap();
        let section = write(dir.path(), "section", &section);
        let listed: Vec<&str> = found["data"][names].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let list = write(dir.path(), "names", listed.join("\n").as_bytes());
        let grep = Command::new("grep").args(["-aowF", "-f"]).arg(&list).arg(&section).env("LC_ALL", "C").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&grep.stdout), "", "{names} of {} names", listed.len());
        assert!(listed.len() > 5, "a control: some came and went");
    }
}

#[test]
fn a_made_up_bundle_yields_exactly_what_it_registers() {
    let dir = tempfile::tempdir().unwrap();
    let id = format!("zoo{}", std::process::id());
    let first = format!(r#"import{{x}}from"y";var k=q.get("{id}.list","/{id}/animals",{{success:x}});this.get("a.b",c)"#);
    let second = format!(
        "let w=\"/{id}/cage\",M={{open:`${{w}}/:cageID/open`}};q.post(\"{id}.open\",M.open,{{success:x}}),q.delete(\"{id}.remove\",w,{{success:x}})"
    );
    let file = write(dir.path(), "zoo", &bundle("--", &[&first, &second]));
    let found = run(&["binary", "ops", file.to_str().unwrap(), "--json"]).json();
    let rows: Vec<Value> =
        found["data"]["operations"].as_array().unwrap().iter().map(|one| json!([one["id"], one["method"], one["path"]])).collect();
    assert_eq!(
        rows,
        [
            json!([format!("{id}.list"), "GET", format!("/{id}/animals")]),
            json!([format!("{id}.open"), "POST", format!("/{id}/cage/:cageID/open")]),
            json!([format!("{id}.remove"), "DELETE", format!("/{id}/cage")]),
        ]
    );
    let lines = run(&["binary", "ops", file.to_str().unwrap(), "--format", "ndjson"]).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "a head, three rows, a tail");
    assert_eq!(lines[1]["path"], format!("/{id}/animals"));
}

#[test]
fn a_contract_in_a_file_tells_missing_extra_and_changed_and_the_code_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"q.get("zoo.list","/zoo",{success:x}),q.get("zoo.extra","/extra",{success:x}),q.put("zoo.moved","/new",{success:x})"#;
    let file = write(dir.path(), "zoo", &bundle("--", &[text]));
    let contract = json!({"paths": {"/zoo": {"get": {"operationId": "zoo.list"}, "post": {"operationId": "zoo.add"}}, "/old": {"put": {"operationId": "zoo.moved"}}}});
    let contract = write(dir.path(), "contract.json", contract.to_string().as_bytes());
    let ran = run(&["binary", "ops", file.to_str().unwrap(), "--against", contract.to_str().unwrap(), "--json"]);
    let against = &ran.json()["data"]["against"];
    assert_eq!(ran.code, 1);
    assert_eq!(
        (&against["same"], &against["missing"][0]["id"], &against["extra"][0]["id"]),
        (&json!(1), &json!("zoo.add"), &json!("zoo.extra"))
    );
    assert_eq!(against["changed"][0]["bundle"]["path"], "/new");
    let page = run(&["binary", "ops", file.to_str().unwrap(), "--against", contract.to_str().unwrap()]).stdout;
    assert!(page.contains("1 the same, 1 missing, 1 extra, 1 changed"), "{page}");
    // Both sides of what changed: method, path and id.
    let moved = write(dir.path(), "moved.json", br#"{"paths":{"/zoo":{"put":{"operationId":"zoo.list"}}}}"#);
    let page = run(&["binary", "ops", file.to_str().unwrap(), "--against", moved.to_str().unwrap()]).stdout;
    let line = page.lines().find(|line| line.contains("changed ")).unwrap();
    assert!(line.contains("PUT") && line.contains("GET /zoo"), "{page}");
}

#[test]
fn an_operation_has_the_contract_s_name_in_every_table() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"q.get("list","/zoo",{success:x}).annotateMerge(M.annotations({identifier:"zoo.list"}))"#;
    let file = write(dir.path(), "zoo", &bundle("--", &[text]));
    let contract = write(dir.path(), "contract.json", br#"{"paths":{}}"#);
    for more in [&[][..], &["--against", contract.to_str().unwrap()]] {
        let page = run(&[&["binary", "ops", file.to_str().unwrap()], more].concat()).stdout;
        assert!(page.lines().any(|line| line.contains("GET") && line.trim_end().ends_with(" zoo.list")), "{page}");
    }
    let found = run(&["binary", "ops", file.to_str().unwrap(), "--json"]).json();
    let operation = &found["data"]["operations"][0];
    assert_eq!((&operation["id"], &operation["identifier"]), (&json!("list"), &json!("zoo.list")));
}

#[test]
fn nothing_is_asked_that_is_not_on_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "zoo", &bundle("--", &["x"]));
    for url in ["http://192.0.2.1/doc", "https://localhost/doc", "http://localhost.example/doc", "http://127.0.0.1:99999/doc", ""] {
        let start = Instant::now();
        let ran = run(&["binary", "ops", file.to_str().unwrap(), "--against", url]);
        assert_eq!(ran.code, 2, "{url}: {}", ran.stderr);
        assert!(start.elapsed() < Duration::from_secs(2));
    }
    // A page is no contract, and a server that redirects is not followed.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
            "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for expected in ["it is not JSON", "it answers with status 302"] {
        let ran = run(&["binary", "ops", file.to_str().unwrap(), "--against", &format!("http://{address}/doc")]);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{}", ran.stderr);
    }
    server.join().unwrap();
}
