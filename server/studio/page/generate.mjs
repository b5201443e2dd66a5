// Writes src/generated: messages and services of omni.v1, from the descriptors that the Rust crate `omni-proto` keeps.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  CodeGeneratorRequestSchema,
  CodeGeneratorResponseSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";

const here = import.meta.dirname;
const target = join(here, "src/generated");
const descriptors = readFileSync(join(here, "../../../proto/src/generated/omni.v1.fds"));
const { file } = fromBinary(FileDescriptorSetSchema, descriptors);
const ours = (name) => name.startsWith("omni/v1/") || name.startsWith("google/rpc/");
const request = create(CodeGeneratorRequestSchema, {
  fileToGenerate: file.map((one) => one.name).filter(ours),
  parameter: "target=ts",
  protoFile: file,
});
const plugin = join(here, "node_modules/.bin/protoc-gen-es");
const answer = execFileSync(plugin, {
  input: toBinary(CodeGeneratorRequestSchema, request),
  maxBuffer: 64 << 20,
});
const response = fromBinary(CodeGeneratorResponseSchema, answer);
if (response.error) throw new Error(response.error);
rmSync(target, { recursive: true, force: true });
for (const made of response.file) {
  const path = join(target, made.name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, made.content);
}
