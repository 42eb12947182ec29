# Makes authorities and certificates in the current directory.
#
#   authority     certificate             of
#   ca.pem        cert.pem, key.pem       this machine
#   devices.pem   device.pem, device.key  a device
#   others.pem    other.pem, other.key    a stranger
set -e
make() {
    k='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
    openssl req -x509 $k -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" -days 2
    openssl req $k -keyout "$3" -out request.pem -subj "/CN=$4"
    printf 'subjectAltName=DNS:%s' "$4" > names
    openssl x509 -req -in request.pem -CA "$1.pem" -CAkey "$1.key" -CAcreateserial -out "$2" -days 2 -extfile names
}
make ca cert.pem key.pem localhost
make devices device.pem device.key device
make others other.pem other.key other
