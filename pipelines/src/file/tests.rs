use super::*;

use warpwire_core::stages::BuiltIn;

const NICS: &str = "[nic.left]\nopen = \"soft:a\"\naddresses = [\"10.0.0.1/24\"]\n\
                    [nic.right]\nopen = \"soft:b\"\n";

fn parse(text: &str) -> Result<PipelineFile, Problems> {
    PipelineFile::parse("test.toml", text, &Catalogue::of::<BuiltIn>())
}

/// A file with two NICs and these stages on `left`; the first stage starts in line 8.
fn with_stages(stages: &str) -> String {
    format!("{NICS}[[receive]]\nfrom = \"left\"\n{stages}\n")
}

/// Checks that exactly this is wrong: `(line, field, words of the problem, words of the cure)`.
fn check(text: &str, want: (usize, &str, &str, &str)) {
    let problems = parse(text).expect_err(text);
    let found = &problems.list;
    assert_eq!(found.len(), 1, "{text}\n{problems}");
    let Problem {
        line,
        field,
        problem,
        cure,
        ..
    } = &found[0];
    let (want_line, want_field, want_problem, want_cure) = want;
    assert_eq!(
        (*line, field.as_str()),
        (want_line, want_field),
        "{problems}"
    );
    assert!(problem.contains(want_problem), "{problems}");
    assert!(cure.contains(want_cure), "{problems}");
}

#[test]
fn wrong_stages_name_line_field_and_cure() {
    let stage = |words: &str| with_stages(&format!("[[receive.stage]]\n{words}"));
    let at = |field: &str| format!("receive[0].stage[0].{field}");
    let cases: &[(&str, usize, &str, &str, &str)] = &[
        ("name = \"x\"", 8, "do", "is missing", "classify"),
        ("do = \"forword\"", 9, "do", "forword", "forward"),
        ("do = 7", 9, "do", "`7`", "one of classify"),
        ("do = \"forward\"", 8, "to", "is missing", "NIC"),
        (
            "do = \"forward\"\nto = \"up\"",
            10,
            "to",
            "`up`",
            "left, right",
        ),
        (
            "do = \"forward\"\nto = \"left\"",
            10,
            "to",
            "come from",
            "reply",
        ),
        (
            "do = \"reply\"\nto = \"right\"",
            10,
            "to",
            "not known",
            "known here",
        ),
        (
            "do = \"rewrite\"\nttl = 0",
            10,
            "ttl",
            "0 is out of range",
            "1 to 255",
        ),
        (
            "do = \"rewrite\"\nttl = \"x\"",
            10,
            "ttl",
            "string",
            "1 to 255",
        ),
        (
            "do = \"rewrite\"\nsource_mac = \"2\"",
            10,
            "source_mac",
            "`2`",
            "02:00",
        ),
        (
            "do = \"rewrite\"\nswap_macs = 1",
            10,
            "swap_macs",
            "integer",
            "true",
        ),
        (
            "do = \"rewrite\"\nsource = \"::\"",
            10,
            "source",
            "`::`",
            "address",
        ),
        (
            "do = \"classify\"\ntables = [\"vlans\"]",
            10,
            "tables[0]",
            "vlans",
            "vlan",
        ),
        (
            "do = \"classify\"\ntables = []",
            10,
            "tables",
            "is empty",
            "ether_type",
        ),
        (
            "do = \"dns\"\nports = [0]",
            10,
            "ports[0]",
            "0",
            "1 to 65535",
        ),
        (
            "do = \"dns\"\nports = [1,2,3,4,5,6,7,8]",
            10,
            "ports",
            "8",
            "at most 7",
        ),
        (
            "do = \"spread\"\nto = \"right\"\nkey = \"00\"",
            11,
            "key",
            "00",
            "40 bytes",
        ),
        (
            "do = \"sample\"\nevery = 10",
            8,
            "file",
            "missing",
            "pcapng",
        ),
        (
            "do = \"count\"\nnmae = \"x\"",
            10,
            "nmae",
            "not known",
            "`name`",
        ),
        (
            "do = \"count\"\nname = \"\"",
            10,
            "name",
            "empty",
            "1 to 40",
        ),
        (
            "do = \"count\"\nwhen = {}",
            10,
            "when",
            "nothing",
            "protocol",
        ),
        (
            "do = \"count\"\nwhen = { vlan = 4096 }",
            10,
            "when.vlan",
            "4096",
            "4095",
        ),
        (
            "do = \"count\"\nwhen = { port = \"9-1\" }",
            10,
            "when.port",
            "9-1",
            "1000-2000",
        ),
        (
            "do = \"count\"\nwhen = { protcol = 1 }",
            10,
            "when.protcol",
            "known",
            "`protocol`",
        ),
        (
            "do = \"count\"\nwhen = { kind = \"ip\" }",
            10,
            "when.kind",
            "ip",
            "ipv4",
        ),
        (
            "do = \"count\"\nwhen = { source = \"10.0.0.0/8\", destination = \"::/0\" }",
            10,
            "when.destination",
            "family",
            "two rules",
        ),
        (
            "do = \"filter\"\ndeny = [{ qp = 16777216 }]",
            10,
            "deny[0].qp",
            "16777216",
            "2^24",
        ),
    ];
    for (words, line, field, problem, cure) in cases {
        let field = at(field);
        let problems = parse(&stage(words)).expect_err(words);
        let found = &problems.list[0];
        assert_eq!(problems.list.len(), 1, "{problems}");
        assert_eq!(
            (found.line, found.field.as_str()),
            (*line, field.as_str()),
            "{problems}"
        );
        assert!(found.problem.contains(problem), "{words}: {problems}");
        assert!(found.cure.contains(cure), "{words}: {problems}");
    }
}

#[test]
fn stages_with_nothing_to_do_are_refused() {
    let text = with_stages("[[receive.stage]]\ndo = \"filter\"");
    check(
        &text,
        (8, "receive[0].stage[0]", "nothing to do", "deny, allow"),
    );
    let text = with_stages("[[receive.stage]]\ndo = \"rewrite\"\nswap_macs = false");
    check(
        &text,
        (8, "receive[0].stage[0]", "nothing to do", "swap_macs"),
    );
}

#[test]
fn a_stage_behind_an_end_is_refused_unless_the_end_has_a_when() {
    let end = "[[receive.stage]]\ndo = \"drop\"\n";
    let after = "[[receive.stage]]\ndo = \"count\"\n";
    let text = with_stages(&format!("{end}{after}"));
    check(&text, (10, "receive[0].stage[1]", "`drop 0`", "`when`"));
    let text = with_stages(&format!("{end}when = {{ vlan = 1 }}\n{after}"));
    parse(&text).expect("is reached");
}

#[test]
fn wrong_files_name_line_field_and_cure() {
    let receive = "[[receive]]\nfrom = \"left\"\n[[receive.stage]]\ndo = \"drop\"\n";
    let nine: String = (0..9)
        .map(|n| format!("[nic.n{n}]\nopen = \"soft\"\n"))
        .collect();
    let cases = [
        ("a = ".to_owned(), 1, "toml", "", "toml.io"),
        (
            format!("{NICS}{receive}[nic.left]\n"),
            10,
            "toml",
            "`left` is there twice",
            "leave one",
        ),
        (receive.to_owned(), 1, "nic", "is missing", "[nic.NAME]"),
        (NICS.to_owned(), 1, "receive", "is missing", "[[receive]]"),
        (
            format!("{NICS}[[receive]]\nfrom = \"left\"\n"),
            6,
            "receive[0].stage",
            "missing",
            "stage",
        ),
        (
            format!("{NICS}{receive}{receive}"),
            10,
            "receive[1]",
            "another",
            "one [[receive]]",
        ),
        (
            format!("blocks = 0\n{NICS}{receive}"),
            1,
            "blocks",
            "0",
            "1 to 8",
        ),
        (
            format!("blocks = 2\n{NICS}{receive}"),
            1,
            "nic.left.queues",
            "1 queues",
            "queues = 2",
        ),
        (
            format!("duration = \"5\"\n{NICS}{receive}"),
            1,
            "duration",
            "`5`",
            "10s",
        ),
        (
            format!("[nic.up]\nopen = \"eth0\"\n{receive}"),
            2,
            "nic.up.open",
            "eth0",
            "xdp:IFACE",
        ),
        (
            format!("[nic.up]\nmode = 1\n{NICS}{receive}"),
            1,
            "nic.up.open",
            "missing",
            "soft",
        ),
        (
            format!("[nic.up]\nopen = \"soft\"\npeer = \"down\"\n{NICS}{receive}"),
            1,
            "nic.up.peer",
            "`down`",
            "another soft NIC: left, right",
        ),
        (
            format!("[nic.up]\nopen = \"soft\"\nmac = \"01:00:00:00:00:01\"\n{NICS}{receive}"),
            3,
            "nic.up.mac",
            "01:00",
            "one host",
        ),
        (
            format!("[nic.up]\nopen = \"xdp:veth0\"\n{NICS}{receive}"),
            2,
            "nic.up.open",
            "address",
            "flow=",
        ),
        (
            format!("[nic.up]\nopen = \"memif:/a\"\nrole = \"boss\"\n{NICS}{receive}"),
            3,
            "nic.up.role",
            "boss",
            "role=client",
        ),
        (
            format!("[nic.up]\nopen = \"soft\"\nqueues = 9\n{NICS}{receive}"),
            3,
            "nic.up.queues",
            "9",
            "queues=1",
        ),
        (
            format!("{nine}[[receive]]\nfrom = \"n0\"\n[[receive.stage]]\ndo = \"drop\"\n"),
            17,
            "nic.n8",
            "too many",
            "leave it out",
        ),
    ];
    for (text, line, field, problem, cure) in cases {
        let problems = parse(&text).expect_err(&text);
        let found = problems.list.iter().find(|one| one.field == field);
        let found = found.unwrap_or_else(|| panic!("{text}\n{problems}"));
        assert_eq!(found.line, line, "{problems}");
        assert!(found.problem.contains(problem), "{problems}");
        assert!(found.cure.contains(cure), "{problems}");
    }
}

/// One mistake is one problem: what hangs on it is not blamed.
#[test]
fn nothing_else_is_blamed_for_a_mistake() {
    let respond = "[[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"respond\"\n";
    let drop = "[[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n";
    let long = "x".repeat(70);
    type Wanted<'a> = (usize, &'a str, &'a str, &'a str);
    let cases: &[(&str, &str, Wanted<'_>)] = &[
        (
            "[nic.a]\nopen = \"eth0\"\n",
            drop,
            (2, "nic.a.open", "eth0", "pcap:FILE"),
        ),
        (
            "[nic.a]\nopen = \"dpdk:x\"\n",
            drop,
            (2, "nic.a.open", "`dpdk`", "memif:SOCKET"),
        ),
        (
            "[nic.a]\nopen = \"xdp:x,all=no\"\nall = true\n",
            drop,
            (3, "nic.a.all", "too", "one"),
        ),
        (
            "[nic.a]\nopen = \"xdp:x\"\nall = true\nnetns = \"../x\"\n",
            drop,
            (4, "nic.a.netns", "`../x`", "ip netns list"),
        ),
        (
            "[nic.a]\nopen = \"soft\"\naddresses = [\"10.0.0\"]\n",
            respond,
            (3, "nic.a.addresses[0]", "10.0.0", "10.0.0.1"),
        ),
        (
            "[nic.a]\nopen = \"xdp:x\"\nall = true\n[nic.b]\nopen = \"xdp:x\"\nall = true\n",
            drop,
            (1, "nic.b.open", "that `a` opens", "queues"),
        ),
        (
            "[nic.a]\nopen = \"soft\"\npeer = \"b\"\n[nic.b]\nopen = \"pcap:x\"\n",
            drop,
            (1, "nic.a.peer", "`b`", "soft NIC"),
        ),
        (
            "[nic.a]\nopen = \"soft\"\npeer = \"a\"\n",
            drop,
            (1, "nic.a.peer", "`a`", "loop"),
        ),
        (
            "[nic.a]\nopen = \"soft\"\npeer = \"b\"\n[nic.b]\nopen = \"soft\"\npeer = \"c\"\n\
          [nic.c]\nopen = \"soft\"\n",
            drop,
            (1, "nic.a.peer", "into `c`", "two ends"),
        ),
        (
            "[nic.a]\nopen = \"soft\"\n\"x\\u001b[31m\" = {}\n",
            drop,
            (3, "nic.a.x\\u{1b}[31m", "neither", "value"),
        ),
        (
            "[nic.a]\nopen = \"soft\"\n",
            "[[generate]]\nfrom = \"a\"\n[[generate.frame]]\n\
          kind = \"dns\"\ntext = \"a..b\"\n",
            (7, "generate[0].frame[0].text", "no name", "63"),
        ),
    ];
    for (nics, rest, want) in cases {
        check(&format!("{nics}{rest}"), *want);
    }
    let nics = "[nic.a]\nopen = \"soft\"\n";
    let stages = [
        ("do = \"dns\"\nports = []", "ports", "is empty", "one port"),
        (
            "do = \"filter\"\ndeny = []",
            "deny",
            "is empty",
            "one matcher",
        ),
        ("do = \"sample\"\nfile = \"\"", "file", "is empty", "a file"),
        (
            "do = \"sample\"\nfile = \"/\"",
            "file",
            "is a folder",
            "a file",
        ),
        (
            "do = \"sample\"\nfile = \"a\\u0000\"",
            "file",
            "no file name",
            "a file",
        ),
    ];
    for (stage, field, problem, cure) in stages {
        let text = format!("{nics}[[receive]]\nfrom = \"a\"\n[[receive.stage]]\n{stage}\n");
        let field = format!("receive[0].stage[0].{field}");
        check(&text, (7, &field, problem, cure));
    }
    let text = format!("{nics}{long} = {{}}\n{drop}");
    let shown = parse(&text).expect_err(&text).to_string();
    assert!(!shown.contains(&long), "{shown}");
}

#[test]
fn a_file_is_read_up_to_its_bound() {
    let catalogue = Catalogue::of::<BuiltIn>();
    let check = |path: &Path, want: &str| {
        let problems = PipelineFile::load(path, &catalogue).expect_err("is refused");
        let [problem] = problems.list.as_slice() else {
            panic!("{problems}");
        };
        assert!(problem.problem.contains(want), "{problems}");
    };
    check(Path::new("/dev/zero"), "not a regular file");
    let name = format!("warpwire-long-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = std::fs::File::create(&path).expect("can be written");
    file.set_len(1 << 40).expect("takes no room");
    check(&path, "more than");
    std::fs::remove_file(&path).expect("was there");
}

#[test]
fn a_block_drives_a_bounded_number_of_queue_pairs() {
    let nics = "[nic.a]\nopen = \"soft\"\nqueues = 5\n[nic.b]\nopen = \"soft\"\nqueues = 4\n";
    let receive = "[[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"forward\"\nto = \"b\"\n";
    let text = format!("{nics}{receive}");
    check(&text, (1, "blocks", "9 queue pairs", "more blocks"));
    parse(&format!("blocks = 2\n{text}")).expect("three and two");
    let apart = format!("{nics}[[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n");
    parse(&apart).expect("the NICs are not joined");
}

#[test]
fn problems_are_fit_for_a_terminal_and_name_any_key() {
    let cases = [
        ("\"\" = 1\n", 1, "\"\"", "is not known here"),
        ("\" \" = 1\n", 1, "\" \"", "is not known here"),
        (
            "\"a\\u001b[2J\" = 1\n",
            1,
            "a\\u{1b}[2J",
            "is not known here",
        ),
        (
            "name = \"x\"\nduration = \"\\u0007\"\n",
            2,
            "duration",
            "`\\u{7}`",
        ),
    ];
    for (words, line, field, problem) in cases {
        let stages = with_stages("[[receive.stage]]\ndo = \"drop\"");
        check(&format!("{words}{stages}"), (line, field, problem, ""));
    }
}

#[test]
fn every_problem_is_told_in_the_order_of_lines() {
    let text = with_stages(
        "[[receive.stage]]\ndo = \"forward\"\nto = \"up\"\n[[receive.stage]]\ndo = \"nothing\"",
    );
    let problems = parse(&format!("loud = true\n{text}")).expect_err("three problems");
    let lines: Vec<usize> = problems.list.iter().map(|one| one.line).collect();
    assert_eq!(lines, [1, 11, 13], "{problems}");
    let shown = problems.to_string();
    assert!(
        shown.starts_with("test.toml:1:1: loud: is not known here"),
        "{shown}"
    );
}

#[test]
fn arguments_are_packed_as_the_stage_reads_them() {
    let file = parse(&with_stages(
        "[[receive.stage]]\ndo = \"filter\"\ndeny = [{ protocol = \"udp\" }, { vlan = 7 }]\n\
         allow = { source = \"10.0.0.0/8\" }\n\
         [[receive.stage]]\ndo = \"respond\"\nanswer = [\"arp\", \"echo\"]\n\
         [[receive.stage]]\ndo = \"forward\"\nto = \"right\"\nwhen = { port = 53 }",
    ))
    .expect("reads");
    let receive = &file.receives[0];
    let word = |stage: usize, at: usize| {
        let bytes = &receive.stages[stage].args[at * 4..at * 4 + 4];
        u32::from_ne_bytes(bytes.try_into().expect("four bytes"))
    };
    assert_eq!((word(0, 0), word(0, 1), word(0, 2)), (0b11, 0, 2), "deny");
    assert_eq!((word(0, 3), word(0, 4)), (2, 1), "allow");
    assert_eq!((word(1, 0), word(1, 1)), (0b01, 0b101), "answers");
    assert_eq!((word(1, 2), word(1, 3)), (0, 1), "own addresses");
    assert_eq!((word(2, 0), word(2, 1)), (0b01, 1), "to");
    assert_eq!(receive.stages[2].to, Some(1));
    assert_eq!(
        (receive.stages[2].when.first, receive.stages[2].when.count),
        (3, 1)
    );
    assert_eq!(receive.addresses.len(), 1);
    assert_eq!(receive.rules.len(), 4);
    assert_eq!(file.groups(), [vec![0, 1]]);
}

#[test]
fn other_keys_of_a_nic_become_its_options() {
    let text = "[nic.a]\nopen = \"soft:x,depth=64\"\nqueues = 2\nmtu = 9000\nslot = 16384\n\
                [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"reply\"\n";
    let file = parse(text).expect("reads");
    let nic = &file.nics[0];
    assert_eq!(
        nic.spec.to_string(),
        "soft:x,depth=64,mtu=9000,queues=2,slot=16384"
    );
    assert_eq!(nic.queues, 2);
}

#[test]
fn every_stage_says_enough_and_fits() {
    for spec in BuiltIn::SPECS {
        assert!(
            spec.args_bytes <= warpwire_core::program::ARGS_BYTES,
            "{}",
            spec.name
        );
        assert!(spec.fields.len() <= 32, "{}", spec.name);
        assert!(spec.about.len() > 10, "{}", spec.name);
        for name in spec.one_of {
            assert!(
                spec.fields.iter().any(|field| field.name == *name),
                "{name}"
            );
        }
        for field in spec.fields {
            let same = spec.fields.iter().filter(|other| other.name == field.name);
            assert_eq!(same.count(), 1, "{}.{}", spec.name, field.name);
            assert!(
                !["do", "name", "when"].contains(&field.name),
                "{}",
                spec.name
            );
        }
    }
}

#[test]
fn every_example_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/pipelines");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("is readable").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        PipelineFile::load(&path, &Catalogue::of::<BuiltIn>())
            .unwrap_or_else(|error| panic!("{error}"));
        seen += 1;
    }
    assert!(seen >= 5, "{seen} examples");
}
