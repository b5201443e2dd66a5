#!/usr/bin/env bash
# Regenerates the embedded checkpoint from nothing: texts, the teacher's features and audio, codec, codes, talker, vocoder, loudness,
# thinker, export, evaluation, verification. Every stage resumes where it stopped; run it again after an interruption.
#
#   models/embedded/train.sh                 about seven hours for the voices and six for the thinker on two CPU cores with bfloat16 matrix units
#   OMNI_EMBEDDED_SCALE=smoke models/embedded/train.sh     a few steps of every stage, into the scratch folder: does it all still run?
#   STAGES="export evaluate" models/embedded/train.sh
#   OMNI_EMBEDDED_FROM=checkpoint OMNI_EMBEDDED_TEXT_SEED=1 STAGES="texts natural codes talker+vocoder loudness export evaluate verify" models/embedded/train.sh
#                                            go on from the shipped voices, with their codec and texts they have not said yet
#   OMNI_EMBEDDED_FROM=checkpoint OMNI_EMBEDDED_VOICES=checkpoint STAGES="thinker export examine verify" models/embedded/train.sh
#                                            the thinker alone, from its shipped weights: to add a fact
#
# OMNI_EMBEDDED_WORK   scratch folder (default models/embedded/work, about 15 GB, half of it the virtual environment)
# OMNI_EMBEDDED_FROM   talker, vocoder and thinker go on from those of this checkpoint
# OMNI_EMBEDDED_VOICES keep the voices of this checkpoint instead of those in the scratch folder
# OMNI_EMBEDDED_TEXT_SEED which texts the teacher says, one seed or several (`2,3`; default: always the same)
# OMNI_EMBEDDED_HOURS, OMNI_EMBEDDED_AUDIO_HOURS   how much the teacher says (default 20), and how much of it is made audible (default 1)
# OMNI_EMBEDDED_PROGRAMS folder of omni-server and omni-client, whose --help the thinker learns from (default target/release)
# OMNI_EMBEDDED_STOP_AFTER seconds of a stage; one that is not done by then keeps its state, and the run ends with status 75. Export and the
#                      stages after it run to their end, and so do the angles of the vocoder (minutes)
# OMNI_EMBEDDED_THREADS threads of a process (default 1: then two processes of a stage, or two stages, run side by side)
# OMNI_EMBEDDED_VENV   virtual environment (default <work>/venv; made when missing), or any folder with bin/python3 that has PyTorch
#
# talker and thinker can be trained on a machine without network, with a GPU: pack.py brings what they read (docs/dev/embedded-model.md).
set -euo pipefail
cd "$(dirname "$0")"

export OMNI_EMBEDDED_SCALE="${OMNI_EMBEDDED_SCALE:-full}"
suffix=$([ "$OMNI_EMBEDDED_SCALE" = full ] || echo "-$OMNI_EMBEDDED_SCALE")
export OMNI_EMBEDDED_WORK="${OMNI_EMBEDDED_WORK:-$PWD/work$suffix}"
VENV="${OMNI_EMBEDDED_VENV:-$OMNI_EMBEDDED_WORK/venv}"
STAGES="${STAGES:-texts natural codec codes talker+vocoder loudness thinker export evaluate examine verify}"
hours="${OMNI_EMBEDDED_HOURS:-20}" audio="${OMNI_EMBEDDED_AUDIO_HOURS:-1}"
from=(${OMNI_EMBEDDED_FROM:+--from "$OMNI_EMBEDDED_FROM"})
voices=(${OMNI_EMBEDDED_VOICES:+--voices "$OMNI_EMBEDDED_VOICES"})
case " $STAGES " in
  *" natural "*)
    awk -v h="$hours" -v a="$audio" 'BEGIN { exit !(a > h) }' && {
      echo "train.sh: OMNI_EMBEDDED_AUDIO_HOURS ($audio) is more than OMNI_EMBEDDED_HOURS ($hours)" >&2
      exit 1
    } ;;
esac
takes="about seven hours for the voices and six for the thinker, on two cores with bfloat16 matrix units"
[ "$OMNI_EMBEDDED_SCALE" = smoke ] && takes="five to fifteen minutes"
echo "== stages: $STAGES; from nothing this takes $takes"
case " $STAGES " in
  *" thinker "* | *" examine "*)     # said now, not after the hours of the stages before
    for program in omni-server omni-client; do
      [ -z "${OMNI_EMBEDDED_PROGRAMS:-}" ] && [ -e "$OMNI_EMBEDDED_WORK/programs.json" ] || [ -x "${OMNI_EMBEDDED_PROGRAMS:-../../target/release}/$program" ] || {
        echo "train.sh: $program is missing: the thinker learns from its --help. Run make build, or set OMNI_EMBEDDED_PROGRAMS" >&2
        exit 1
      }
    done ;;
esac
mkdir -p "$OMNI_EMBEDDED_WORK"

install() {
  command -v apt-get >/dev/null || { echo "train.sh: please install $*" >&2; exit 1; }
  local sudo
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends "$@"
}

case " $STAGES " in
  *" texts "*) sources=1 ;;
  *" thinker "* | *" examine "*) sources=$([ -e "$OMNI_EMBEDDED_WORK/words" ] || echo 1) ;;
  *) sources= ;;
esac
if [ "$sources" ] && { ! command -v bible >/dev/null || [ ! -d /usr/share/wordnet ] \
   || [ ! -d /usr/share/games/fortunes ] || [ ! -f /usr/share/dict/american-english-large ]; }; then
  install wordnet-base fortunes bible-kjv bible-kjv-text wamerican-large
fi
command -v c++ >/dev/null || install g++                 # PyTorch compiles with it
if [ -n "${OMNI_EMBEDDED_VENV:-}" ] && [ ! -f "$VENV/pyvenv.cfg" ] && [ -d "$VENV" ]; then
  [ -x "$VENV/bin/python3" ] || { echo "train.sh: $VENV has no bin/python3" >&2; exit 1; }
elif ! cmp -s requirements.txt "$VENV/requirements.txt"; then
  python3 -c 'import ensurepip' 2>/dev/null || install python3-venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install -r requirements.txt
  cp requirements.txt "$VENV/requirements.txt"
fi
PY="$VENV/bin/python3"

# One thread a process, one process a core: threads that wait for each other cost more than they bring.
export OMNI_EMBEDDED_THREADS="${OMNI_EMBEDDED_THREADS:-1}"
two_cores() { command -v taskset >/dev/null && [ "$(nproc)" -ge 2 ] && [ "$OMNI_EMBEDDED_THREADS" = 1 ]; }

on() {
  local core=$1
  shift
  if two_cores; then
    taskset -c "$core" "$PY" "$@"
  else
    "$PY" "$@"
  fi
}

both() {            # both <script> <args> -- <script> <args>: side by side, one on each core
  local first=()
  while [ "$1" != -- ]; do
    first+=("$1")
    shift
  done
  shift
  trap 'kill 0' INT         # jobs in the background ignore the interrupt of a terminal
  on 0 "${first[@]}" & local a=$!
  on 1 "$@" & local b=$!
  local one=0 other=0
  wait $a || one=$?
  wait $b || other=$?
  trap - INT
  if [ "$one" -ne 0 ] && [ "$one" -ne 75 ]; then return "$one"; fi         # a failure before a pause
  if [ "$other" -ne 0 ]; then return "$other"; fi
  return "$one"
}

talker() {          # alone it takes both cores, if there is no GPU
  if two_cores && "$PY" -c 'import sys, torch; sys.exit(torch.cuda.is_available())'; then
    "$PY" talker.py --processes 2 "$@"
  else
    on 0 talker.py "$@"
  fi
}

for stage in $STAGES; do
  echo "== $stage $(date +%H:%M:%S)"
  case $stage in
    texts) on 0 natural.py --texts ;;
    natural) [ "$OMNI_EMBEDDED_SCALE" = smoke ] || both natural.py --hours "$hours" -- natural.py --audio --hours "$audio" ;;
    codec) on 0 codec.py ;;
    codes) if two_cores; then both codes.py --part 0/2 -- codes.py --part 1/2; else on 0 codes.py; fi ;;
    vocoder) on 0 vocoder.py "${from[@]}" ;;
    talker) talker "${from[@]}" ;;
    talker+vocoder) both talker.py "${from[@]}" -- vocoder.py "${from[@]}" ;;
    loudness) on 0 loudness.py ;;
    thinker) on 0 thinker.py "${voices[@]}" "${from[@]}" ;;
    export) on 0 export.py "${voices[@]}" ;;
    evaluate) on 0 evaluate.py ;;
    examine) on 0 examine.py ;;
    verify) CUDA_VISIBLE_DEVICES='' on 0 verify.py ;;         # the reference, and so ours, on the processor
    *) echo "train.sh: unknown stage $stage" >&2; exit 1 ;;
  esac
done
echo "== done $(date +%H:%M:%S)"
