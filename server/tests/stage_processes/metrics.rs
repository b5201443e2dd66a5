//! The figures of a stage's engine are the same wherever it runs.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::chat_service_client::ChatServiceClient;

use super::{IN_PROCESSES, PATIENCE, SENTENCES, Server, signal, speak, until};

/// The values of all series of the server's own families.
struct Reading(BTreeMap<String, f64>);

impl Reading {
    fn of(server: &Server) -> Self {
        let mut stream = TcpStream::connect(&server.metrics).expect("it listens");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let samples = answer.lines().filter(|line| line.starts_with("vllm:"));
        let values = samples.map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.parse().expect("a number"))
        });
        Self(values.collect())
    }

    /// The sum of a family's samples whose labels have all these texts.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_name = self.0.iter().filter(|(series, _)| {
            let (family, rest) = series.split_once('{').unwrap_or((series, ""));
            family == name && labels.iter().all(|label| rest.contains(label))
        });
        of_name.map(|(_, value)| value).sum()
    }

    /// The label of a stage.
    fn stage(&self, name: &str) -> String {
        let named = format!("stage_name=\"{name}\"");
        let info = self
            .0
            .keys()
            .find(|series| series.starts_with("vllm:omni_stage_info{") && series.contains(&named));
        let info = info.expect("the stage is known");
        let (_, id) = info.split_once(",stage=").expect("it has an id");
        let (id, _) = id.split_once(',').expect("more labels");
        format!("stage={id}")
    }
}

/// Speaks, converses, and reads the figures when nothing is left to do.
async fn work(server: &Server) -> Reading {
    for (seed, text) in (1..).zip(SENTENCES) {
        speak(server, seed, text).await.rest().await.expect("audio");
    }
    let message = v1::ChatMessage {
        role: v1::Role::User.into(),
        parts: vec![v1::ContentPart {
            part: Some(v1::content_part::Part::Text(
                "What is the capital of France?".to_owned(),
            )),
        }],
        ..Default::default()
    };
    let sampling = v1::SamplingParams {
        seed: Some(7),
        ..Default::default()
    };
    let config = v1::ChatConfig {
        output_modalities: vec![v1::Modality::Text.into()],
        text_sampling: Some(sampling),
        ..Default::default()
    };
    let request = v1::GenerateRequest {
        config: Some(config),
        messages: vec![message],
    };
    let mut client = ChatServiceClient::connect(format!("http://{}", server.address))
        .await
        .expect("it listens");
    let mut answer = client.generate(request).await.expect("it is taken").into_inner();
    while answer.message().await.expect("it ends well").is_some() {}

    let over = (SENTENCES.len() + 1) as f64;
    let begun = std::time::Instant::now();
    loop {
        let reading = Reading::of(server);
        let busy = reading.sum("vllm:num_requests_running", &[]);
        if reading.sum("vllm:omni_requests_success_total", &[]) == over && busy == 0.0 {
            return reading;
        }
        assert!(begun.elapsed() < PATIENCE, "{busy} sequences are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Families recorded for every sequence, in any steps.
const PER_SEQUENCE: [&str; 12] = [
    "vllm:time_to_first_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:request_inference_time_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
    "vllm:request_num_preemptions",
    "vllm:request_params_n",
    "vllm:request_max_num_generation_tokens",
];

#[tokio::test]
async fn engines_in_processes_have_the_same_families_and_the_same_figures() {
    let thinker = ["--set", "stages.thinker.placement=process"];
    let here = Server::start(&[]);
    let expected = work(&here).await;
    here.stop();
    let there = Server::start(&[&IN_PROCESSES[..], &thinker].concat());
    let reading = work(&there).await;
    there.stop();

    // Only replicas that have a process of their own have figures of it.
    let own = |name: &&String| name.starts_with("vllm:omni_stage_process_");
    assert!(expected.0.keys().find(own).is_none());
    assert!(reading.0.keys().find(own).is_some());
    let series = |reading: &Reading| {
        let names = reading.0.keys().filter(|name| !own(name));
        names.cloned().collect::<Vec<_>>()
    };
    assert_eq!(series(&reading), series(&expected));
    let mut made = BTreeMap::new();
    for name in ["thinker", "talker", "code2wav"] {
        let stage = reading.stage(name);
        let stop = "finished_reason=\"stop\"";
        let sequences = reading.sum("vllm:request_success_total", &[&stage]);
        assert!(sequences > 0.0, "{name}");
        assert_eq!(
            reading.sum("vllm:request_success_total", &[&stage, stop]),
            sequences
        );
        for family in PER_SEQUENCE {
            let count = reading.sum(&format!("{family}_count"), &[&stage]);
            assert_eq!(count, sequences, "{name} {family}");
        }
        for family in [
            "vllm:request_success_total",
            "vllm:generation_tokens_total",
            "vllm:prompt_tokens_total",
            "vllm:request_prompt_tokens_sum",
            "vllm:request_generation_tokens_sum",
            "vllm:num_preemptions_total",
        ] {
            let got = reading.sum(family, &[&stage]);
            let wanted = expected.sum(family, &[&stage]);
            assert_eq!(got, wanted, "{name} {family}");
        }
        made.insert(name, reading.sum("vllm:generation_tokens_total", &[&stage]));
    }
    assert_eq!(made["talker"], made["code2wav"], "what is spoken is decoded");
    assert_eq!(
        reading.sum("vllm:omni_generation_tokens_total", &[]),
        made["thinker"] + made["talker"]
    );
}

#[tokio::test]
async fn a_process_that_is_killed_and_comes_back_goes_on_being_counted() {
    let server = Server::start(&IN_PROCESSES);
    let spoken = async |seed: u64| {
        let audio = speak(&server, seed, SENTENCES[0]).await.rest().await;
        assert!(!audio.expect("audio").is_empty());
        let mut reading = Reading::of(&server);
        let begun = std::time::Instant::now();
        while reading.sum("vllm:num_requests_running", &[]) > 0.0 {
            assert!(begun.elapsed() < PATIENCE, "a sequence is left");
            tokio::time::sleep(Duration::from_millis(5)).await;
            reading = Reading::of(&server);
        }
        reading
    };
    let mut before = spoken(1).await;
    let up = before.sum("vllm:omni_replica_up", &[]);
    let deaths = |reading: &Reading| reading.sum("vllm:omni_replica_deaths_total", &[]);
    for (seed, process) in (2..).zip(server.children()) {
        signal("-KILL", process);
        until("it is back", || {
            let now = Reading::of(&server);
            deaths(&now) == deaths(&before) + 1.0 && now.sum("vllm:omni_replica_up", &[]) == up
        })
        .await;
        let after = spoken(seed).await;
        let stages = ["talker", "code2wav"].map(|name| after.stage(name));
        for stage in &stages {
            for family in [
                "vllm:request_success_total",
                "vllm:generation_tokens_total",
                "vllm:e2e_request_latency_seconds_count",
                "vllm:iteration_tokens_total_count",
            ] {
                let was = before.sum(family, &[stage]);
                let is = after.sum(family, &[stage]);
                assert!(
                    is > was,
                    "{family} of {stage} stays at {was} when {process} is back"
                );
            }
            let memory = after.sum("vllm:omni_stage_process_resident_memory_bytes", &[stage]);
            assert!(memory > 0.0, "{stage} has no process");
        }
        for family in [
            "vllm:omni_transfer_size_bytes_count",
            "vllm:omni_audio_ttfp_s_count",
            "vllm:omni_audio_duration_s_count",
        ] {
            let was = before.sum(family, &[]);
            let is = after.sum(family, &[]);
            assert!(is > was, "{family} stays at {was} when {process} is back");
        }
        before = after;
    }
    assert_eq!(server.children().len(), 2);
    server.stop();
}
