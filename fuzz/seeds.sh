#!/bin/sh
# Makes the inputs that fuzzing begins with: DIRECTORY/<target>/, from fixtures/ and, with LLVM 22's tools, small objects of
# several machines and libraries of all dialects.
#
#     fuzz/seeds.sh DIRECTORY
set -eu
fixtures=$(cd "$(dirname "$0")/../fixtures" && pwd)
mkdir -p "$1"
cd "$1"
out=$PWD
bin=${LLVM_BIN:-/usr/lib/llvm-22/bin}
host=host-x86_64-unknown-linux-gnu-
gfx906=hip-amdgcn-amd-amdhsa--gfx906
gfx90a=hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-

# put TARGET FILE...: files with the name of their folder, so that none replaces another.
put() {
    target=$1
    shift
    mkdir -p "$out/$target"
    for file in "$@"; do
        cp "$file" "$out/$target/$(basename "$(dirname "$file")")-$(basename "$file")"
    done
}

bundles="$fixtures/binary $fixtures/text $fixtures/compressed $fixtures/sequence $fixtures/hostile"
for target in list unbundle compressed text differential; do
    for folder in $bundles; do
        put $target "$folder"/*
    done
done
put offload_binary "$fixtures"/offload/* "$fixtures"/bitcode/*.bc
put bitcode "$fixtures"/bitcode/*.bc
# Bytes from which decisions are taken.
mkdir -p "$out/roundtrip"
python3 - "$out/roundtrip" <<'END'
import random, sys
for number in range(60):
    bytes_of = random.Random(number)
    open(f'{sys.argv[1]}/{number}', 'wb').write(bytes_of.randbytes(bytes_of.choice([20, 60, 200, 600])))
END
mkdir -p "$out/ids"
number=0
for id in $gfx906 $gfx90a hipv4-amdgcn-amd-amdhsa-unknown-gfx90a hip-amdgcn-amd-amdhsa-gfx9-4-generic \
    $host host-x86_64-unknown-linux host-x86_64-pc-windows-msvc host-aarch64-apple-macosx14.0 host-armv7a-none-eabi \
    host-i686-w64-windows-gnu host-mips64el-unknown-linux-gnuabi64 host-powerpc64-ibm-aix7.2 host-wasm32-wasip1 \
    host-aarch64-none-linux-android21 openmp-nvptx64-nvidia-cuda--sm_70 openmp-amdgcn-amdhsa-fiji \
    sycl-spirv64-unknown-unknown cuda-nvptx64-nvidia-cuda--sm_90a host-dxil-unknown-shadermodel6.5-library; do
    number=$((number + 1))
    printf '%s\n%s' $id $gfx906 >"$out/ids/$number-hip"
    printf '%s\n%s' $id $id >"$out/ids/$number-same"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir object library
cat >source.c <<'END'
static int twice(int x) { return x * 2; }
int known = 3;
__attribute__((weak)) int weak;
extern int other;
int f(void) { return twice(other) + known + weak; }
END
printf 'code object for gfx906' >device
printf '\177ELF no object' >device2

# Objects of both word sizes and byte orders, and fat ones of both tools.
ours=${OFFLOAD_BUNDLER:-clang-offload-bundler}
compile() {
    "$bin/clang" --target="$1" -O1 -fno-ident -fno-asynchronous-unwind-tables -ffreestanding -c source.c -o "object/$1.o" 2>"$work/errors" || {
        cat "$work/errors" >&2
        return 1
    }
}
fat() {
    for tool in "$bin/clang-offload-bundler" "$ours"; do
        case $tool in "$bin"/*) name=llvm ;; *) name=ours ;; esac
        PATH="$bin:$PATH" "$tool" -type=o -targets=$host,$gfx906,$gfx90a -input="object/$1.o" -input=device -input=device2 \
            -output="object/$1-$name.fat" || echo "no fat object of $1 by $name" >&2
    done
}
for target in x86_64-linux-gnu i686-linux-gnu aarch64-linux-gnu powerpc64-linux-gnu s390x-linux-gnu mips-linux-gnu; do
    compile $target
    fat $target
    put elf object/$target*
done
"$bin/llvm-mc" -filetype=obj -triple=amdgcn-amd-amdhsa -mcpu=gfx906 -o object/amdgcn.o /dev/null
fat amdgcn
put elf object/amdgcn*
for target in x86_64-pc-windows-msvc i686-pc-windows-msvc aarch64-pc-windows-msvc; do
    compile $target
    fat $target
    put coff object/$target*
done
# The kind of COFF with 32-bit section numbers.
python3 - object/x86_64-pc-windows-msvc.o object/bigobj.o <<'END'
import struct, sys
data = open(sys.argv[1], 'rb').read()
machine, sections, time, symbols_at, symbols, _, _ = struct.unpack('<HHIIIHH', data[:20])
shift = 56 - 20
class_id = bytes.fromhex('c7a1bad1eebaa94baf20faf66aa4dcb8')
out = struct.pack('<HHHHI', 0, 0xffff, 2, machine, time) + class_id + bytes(16)
out += struct.pack('<III', sections, symbols_at + shift, symbols)
for index in range(sections):
    header = bytearray(data[20 + 40 * index:60 + 40 * index])
    for at in (20, 24):
        value = struct.unpack_from('<I', header, at)[0]
        struct.pack_into('<I', header, at, value + shift if value else 0)
    out += header
out += data[20 + 40 * sections:symbols_at]
for index in range(symbols):
    symbol = data[symbols_at + 18 * index:symbols_at + 18 * index + 18]
    section = struct.unpack_from('<h', symbol, 12)[0]
    out += symbol[:12] + struct.pack('<i', section) + symbol[14:] if len(symbol) == 18 else b''
out += data[symbols_at + 18 * symbols:]
open(sys.argv[2], 'wb').write(out)
END
fat bigobj
put coff object/bigobj*

# Libraries of all dialects, with bundles, fat objects, code objects and bitcode in them.
cp object/x86_64-linux-gnu-ours.fat library/fat.o
cp "$fixtures/binary/llvm22-plain.bundle" library/plain.bundle
cp "$fixtures/compressed/llvm22-v2.ccob" library/compressed.o
cp "$fixtures/bitcode/llvm22-as.bc" library/a-name-of-more-than-sixteen-bytes.bc
PATH="$bin:$PATH" "$bin/clang-offload-bundler" -type=bc -targets=$gfx906,$gfx90a -input="$fixtures/bitcode/llvm22-as.bc" \
    -input=object/amdgcn.o -output=library/code.bundle
LC_ALL=C sed 's|linux-gnu-|linux-gnu/|g' library/plain.bundle >library/slash.bundle
cd library
for format in gnu bsd darwin coff bigarchive; do
    "$bin/llvm-ar" --format=$format rcsD $format.a plain.bundle compressed.o code.bundle a-name-of-more-than-sixteen-bytes.bc
done
"$bin/llvm-ar" rcsD fat.a fat.o code.bundle
"$bin/llvm-ar" rcsDT thin.a plain.bundle
"$bin/llvm-ar" rcD slash.a slash.bundle
"$bin/llvm-ar" rcD offload.a "$fixtures"/offload/llvm22-v1.offload "$fixtures"/offload/llvm22-embedded.o
cd ..
put archive library/*.a
put offload_binary library/offload.a
put list library/gnu.a object/x86_64-linux-gnu-ours.fat object/x86_64-pc-windows-msvc-llvm.fat
put unbundle library/gnu.a object/x86_64-linux-gnu-ours.fat object/x86_64-pc-windows-msvc-llvm.fat
put differential object/*-llvm.fat
put bitcode object/x86_64-linux-gnu.o
