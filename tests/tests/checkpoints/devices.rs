//! A server that computes on a GPU: here with a GPU's kernels, run on the processor.

use std::path::Path;

use omni_audio::{from_i16, i16_from_s16le};
use omni_config::{ModelSource, RawConfig};
use omni_proto::v1;
use omni_server::app::load_model;
use omni_tests::{Reading, TestServer, audio_of, chat_config, chat_message, generate};

const TEXT: &str = "A short one.";

/// A checkpoint with everything, of random weights.
async fn server(args: &[&str]) -> TestServer {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data/qwen3-omni-tiny");
    let raw = RawConfig::arguments_only(["omni-server"].iter().chain(args)).expect("arguments");
    let deploy = raw.validate().expect("a configuration").deploy;
    let load = move || load_model(&ModelSource::Directory(model), &deploy, false);
    let mut server = TestServer::launch(args, load).await;
    server.app.ready().await.expect("the checkpoint loads");
    server
}

fn sampling(max_tokens: u32) -> Option<v1::SamplingParams> {
    Some(v1::SamplingParams {
        temperature: Some(0.0),
        seed: Some(3),
        max_tokens: Some(max_tokens),
        ..v1::SamplingParams::default()
    })
}

async fn spoken(server: &TestServer) -> Vec<f32> {
    let settings = v1::SpeechConfig {
        sampling: sampling(8),
        ..v1::SpeechConfig::default()
    };
    let (audio, _) = audio_of(&mut server.speech(), settings, TEXT)
        .await
        .expect("audio");
    i16_from_s16le(&audio).map(from_i16).collect()
}

async fn answered(server: &TestServer) -> String {
    let settings = v1::ChatConfig {
        text_sampling: sampling(8),
        ..chat_config(false)
    };
    let conversation = vec![chat_message(v1::Role::User, "Hello there.")];
    generate(&mut server.chat(), settings, conversation)
        .await
        .expect("an answer")
        .text
}

/// Few sequences at a time: steps of all sizes are prepared, and the processor takes its time for large ones.
const FEW: [&str; 8] = [
    "--set",
    "stages.talker.max_num_seqs=2",
    "--set",
    "stages.thinker.max_num_seqs=2",
    "--set",
    "stages.code2wav.max_batch=2",
    "--set",
    "stages.code2wav.max_batched_frames=8",
];

const F32: [&str; 6] = [
    "--set",
    "stages.talker.dtype=f32",
    "--set",
    "stages.code2wav.dtype=f32",
    "--set",
    "stages.thinker.dtype=f32",
];

#[tokio::test]
async fn what_a_gpu_says_is_what_a_processor_says() {
    let cpu = server(&["--device", "cpu"]).await;
    let expected = spoken(&cpu).await;
    let text = answered(&cpu).await;
    cpu.stop().await;
    let args = [
        &["--device", "emulated", "--admin-listen", "127.0.0.1:0"][..],
        &F32,
        &FEW,
    ]
    .concat();
    let gpu = server(&args).await;
    let audio = spoken(&gpu).await;
    assert_eq!(audio.len(), expected.len());
    let apart = audio.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-3);
    assert_eq!(answered(&gpu).await, text);

    let reading = Reading::of(&gpu).await;
    let device = [("device", "emulated")];
    let sum = |name| reading.sum(name, &device);
    assert!(sum("vllm:omni_gpu_graphs_recorded_total") > 0.0);
    assert!(
        sum("vllm:omni_gpu_graph_replays_total") > 10.0,
        "most steps are known"
    );
    let in_graphs = [device[0], ("via", "graph")];
    assert!(reading.sum("vllm:omni_gpu_kernel_launches_total", &in_graphs) > 1000.0);
    assert_eq!(sum("vllm:omni_gpu_graph_fallbacks_total"), 0.0);
    let mut admin = gpu.admin().await;
    let stages = admin.list_stages(v1::ListStagesRequest::default());
    let stages = stages.await.expect("stages").into_inner().stages;
    let devices: Vec<_> = stages
        .iter()
        .flat_map(|stage| stage.replicas.iter().map(|replica| replica.device.as_str()))
        .collect();
    assert_eq!(devices, ["emulated"; 4]);
    gpu.stop().await;
}

/// Kernels that were launched so by the emulated device.
fn launched(reading: &Reading, via: &str) -> f64 {
    let labels = [("device", "emulated"), ("via", via)];
    reading.sum("vllm:omni_gpu_kernel_launches_total", &labels)
}

#[tokio::test]
async fn one_stage_computes_elsewhere_and_without_graphs_if_it_is_told_to() {
    let args = [
        "--device",
        "cpu",
        "--set",
        "stages.talker.devices=emulated",
        "--set",
        "stages.talker.enforce_eager=true",
    ];
    let server = server(&[&args[..], &FEW].concat()).await;
    assert!(!spoken(&server).await.is_empty());
    assert!(!answered(&server).await.is_empty());
    let reading = Reading::of(&server).await;
    let on = |stage: &str, device| {
        let labels = [("stage_name", stage), ("device", device)];
        reading.of_name("vllm:omni_stage_info", &labels).count()
    };
    let places = [
        on("thinker", "cpu"),
        on("talker", "emulated"),
        on("talker", "cpu"),
    ];
    assert_eq!(places, [1, 1, 0]);
    assert!(launched(&reading, "single") > 1000.0);
    assert_eq!(launched(&reading, "graph"), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn replicas_of_a_stage_compute_where_each_is_told_to() {
    let args = [
        "--device",
        "cpu",
        "--set",
        "stages.code2wav.replicas=2",
        "--set",
        "stages.code2wav.devices=[cpu, emulated]",
        "--set",
        "stages.code2wav.routing=round-robin",
    ];
    let server = server(&[&args[..], &FEW].concat()).await;
    let before = launched(&Reading::of(&server).await, "graph");
    let first = spoken(&server).await;
    let second = spoken(&server).await;
    assert_eq!(second.len(), first.len());
    let apart = first.iter().zip(&second).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-3, "both in f32");
    let reading = Reading::of(&server).await;
    assert!(
        launched(&reading, "graph") > before,
        "one of them was decoded there"
    );
    for device in ["cpu", "emulated"] {
        let labels = [("stage_name", "code2wav"), ("device", device)];
        let replicas = reading.of_name("vllm:omni_stage_info", &labels).count();
        assert_eq!(replicas, 1, "{device}");
    }
    server.stop().await;
}
