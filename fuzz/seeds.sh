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
for target in list unbundle compressed text differential diff; do
    for folder in $bundles; do
        put $target "$folder"/*
    done
done
put offload_binary "$fixtures"/offload/* "$fixtures"/bitcode/*.bc
put bitcode "$fixtures"/bitcode/*.bc
put fatbin "$fixtures"/fatbin/*
put kpack "$fixtures"/kpack/*.kpack
put kernels "$fixtures"/kernels/*.elf "$fixtures"/kernels/*.cubin
# Bytes from which decisions are taken.
mkdir -p "$out/roundtrip" "$out/kpack" "$out/kernels" "$out/diff"
python3 - "$out/roundtrip" "$out/kpack" "$out/kernels" "$out/diff" <<'END'
import random, sys
for number in range(60):
    bytes_of = random.Random(number)
    data = bytes_of.randbytes(bytes_of.choice([20, 60, 200, 600]))
    for directory in sys.argv[1:]:
        open(f'{directory}/{number}', 'wb').write(data)
END
mkdir -p "$out/ids"
number=0
for id in $gfx906 $gfx90a hipv4-amdgcn-amd-amdhsa-unknown-gfx90a hip-amdgcn-amd-amdhsa-gfx9-4-generic \
    $host host-x86_64-unknown-linux host-x86_64-pc-windows-msvc host-aarch64-apple-macosx14.0 host-armv7a-none-eabi \
    host-i686-w64-windows-gnu host-mips64el-unknown-linux-gnuabi64 host-powerpc64-ibm-aix7.2 host-wasm32-wasip1 \
    host-aarch64-none-linux-android21 openmp-nvptx64-nvidia-cuda--sm_70 openmp-amdgcn-amdhsa-fiji \
    sycl-spirv64-unknown-unknown sycl-spir64_gen-unknown-unknown sycl-native_cpu cuda-nvptx64-nvidia-cuda--sm_90a host-dxil-unknown-shadermodel6.5-library; do
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

# What our own subcommands look into: programs and libraries with bundles at multiples of 4096, wheels, and all of the above.
mkdir -p look
python3 - "$fixtures" object library look <<'END'
import os, struct, sys, zipfile
fixtures, objects, libraries, look = sys.argv[1:]
read = lambda *path: open(os.path.join(*path), 'rb').read()
plain = read(fixtures, 'binary/llvm22-plain.bundle')
packed = read(fixtures, 'compressed/llvm22-v2.ccob')
zlib = read(fixtures, 'compressed/v2-zlib.ccob')
wide = read(fixtures, 'compressed/llvm22-v3.ccob')
binary = read(fixtures, 'offload/llvm22-v1.offload')[:1400]
cuda = read(fixtures, 'fatbin/plain.fatbin')
packed_cuda = read(fixtures, 'fatbin/every-form.fatbin')
wrapper = struct.pack('<IIQQ', 0x466243b1, 1, 0, 0)
packed_binary = read(fixtures, 'offload/v3-zstd.offload')
code = read(objects, 'amdgcn.o')

def bundle(entries, align=1):
    at = 32 + sum(24 + len(name) for name, _ in entries)
    head, body = b'__CLANG_OFFLOAD_BUNDLE__' + struct.pack('<Q', len(entries)), b''
    start = at
    for name, content in entries:
        place = -(-at // align) * align
        head += struct.pack('<QQQ', place, len(content), len(name)) + name
        body += bytes(place - at) + content
        at = place + len(content)
    return head + body

def elf(sections, machine=62, kind=3):
    '''A file of 64 bits with sections of these names, types, alignments and contents.'''
    names, headers, data = b'\0', bytes(64), bytearray(64)
    for name, type_, align, content in sections + [(b'.shstrtab', 3, 1, None)]:
        name_at = len(names)
        names += name + b'\0'
        content = names if content is None else content
        data += bytes(-len(data) % align)
        headers += struct.pack('<IIQQQQIIQQ', name_at, type_, 2, 0, len(data), len(content), 0, 0, align, 0)
        data += content
    data += bytes(-len(data) % 8)
    data[:64] = struct.pack('<16sHHIQQQIHHHHHH', b'\x7fELF\2\1\1', kind, machine, 1, 0, 0, len(data), 0, 64, 0, 0, 64,
                            len(headers) // 64, len(headers) // 64 - 1)
    return bytes(data + headers)

def rows(*bundles):
    data = b''
    for one in bundles:
        data += bytes(-len(data) % 4096) + one
    return data

gpu = elf([(b'.text', 1, 16, b'code')], 224)[:48] + struct.pack('<I', 0x53f) + elf([(b'.text', 1, 16, b'code')], 224)[52:]
HOST, GFX906, GFX90A = b'host-x86_64-unknown-linux-gnu-', b'hip-amdgcn-amd-amdhsa--gfx906', b'hipv4-amdgcn-amd-amdhsa--gfx90a'
code_bundle = bundle([(HOST, b''), (GFX906, b'code' * 30), (GFX90A, gpu)], 64)
nested = bundle([(HOST, b''), (GFX906, packed), (GFX90A, code_bundle)])
FATBIN = lambda content: (b'.hip_fatbin', 1, 4096, content)
OFFLOADING = lambda content: (b'.llvm.offloading', 0x6fff4c0b, 8, content)
files = {
    'one.so': elf([FATBIN(code_bundle)]),
    'many.so': elf([(b'.text', 1, 16, b'text'), FATBIN(rows(plain, packed)), (b'.data', 1, 16, b'data')]),
    'packed.so': elf([FATBIN(rows(packed, zlib, wide)), (b'.data', 1, 16, b'data' * 9)]),
    'room.so': elf([FATBIN(packed + bytes(2000)), (b'.data', 1, 16, b'data')]),
    'tail.so': elf([FATBIN(rows(zlib, b'no bundle'))]),
    'both.so': elf([OFFLOADING(binary), FATBIN(nested)]),
    'offload.so': elf([OFFLOADING(packed_binary + bytes(-len(packed_binary) % 8) + binary)]),
    'fat.o': elf([(b'__CLANG_OFFLOAD_BUNDLE__' + GFX906, 1, 1, b'code'), (b'__CLANG_OFFLOAD_BUNDLE__' + HOST, 1, 1, b'\0')], 62, 1),
    'cuda.so': elf([(b'.nv_fatbin', 1, 8, packed_cuda + bytes(8) + cuda), (b'.nvFatBinSegment', 1, 8, wrapper), (b'.data', 1, 16, b'data')]),
    'cuda.bundle': bundle([(HOST, b''), (GFX906, cuda)]),
    'gpu.elf': gpu,
    'code.bundle': code_bundle,
    'nested.bundle': nested,
    'row.bundles': rows(code_bundle, packed, plain) + b'behind',
}
stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
def zipped(members, wide=False):
    path = os.path.join(look, 'zip')
    with zipfile.ZipFile(path, 'w') as file:
        for name, method, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with file.open(info, 'w', force_zip64=wide) as member:
                member.write(content)
    data = read(path)
    os.remove(path)
    return data

library = files['one.so']
files.update({
    'stored.whl': zipped([('a/b.so', stored, library), ('x.bundle', stored, packed), ('a/', stored, b'')]),
    'deflated.whl': zipped([('a/b.so', deflated, library), ('x.bundle', deflated, packed), ('README', deflated, b'text' * 50)]),
    'mixed.whl': zipped([('nested', deflated, nested), ('text', stored, b'some text'), ('code.o', stored, files['fat.o']), ('gpu', deflated, gpu)]),
    'wide.whl': zipped([('x.bundle', deflated, code_bundle), ('y', stored, plain)], True),
    'offload.whl': zipped([('o', deflated, binary), ('e.so', deflated, files['offload.so']), ('p', stored, packed_binary)]),
    'archive.whl': zipped([('lib.a', deflated, read(libraries, 'gnu.a')), ('bit.bc', deflated, read(fixtures, 'bitcode/llvm22-one.bc'))]),
    'zip.whl': zipped([('inner.whl', deflated, zipped([('x', deflated, plain), ('y', stored, packed)]))]),
})
# The directory of 64-bit zip files, which Python writes for large ones only.
small = zipped([('x', stored, plain)])
end = small.rindex(b'PK\5\6')
count, size, at = struct.unpack('<HII', small[end + 10:end + 20])
files['wide-end.whl'] = (small[:end] + b'PK\6\6' + struct.pack('<QHHIIQQQQ', 44, 45, 45, 0, 0, count, count, size, at) +
    b'PK\6\7' + struct.pack('<IQI', 0, end, 1) + small[end:end + 8] + b'\xff' * 12 + b'\0\0')
for name, data in files.items():
    open(os.path.join(look, name), 'wb').write(data)
END
for target in search extract verify recompress; do
    put $target "$fixtures"/fatbin/* "$fixtures"/kpack/*
    for folder in $bundles; do
        put $target "$folder"/*
    done
    put $target look/*
    put $target object/x86_64-linux-gnu-ours.fat object/x86_64-linux-gnu-llvm.fat
done
for target in search extract verify; do
    put $target "$fixtures"/offload/* "$fixtures"/bitcode/llvm22-one.bc library/*.a object/x86_64-pc-windows-msvc-llvm.fat
done
